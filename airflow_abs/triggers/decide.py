"""Decide for one region in the triggerer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_abs.core.slots.admission import Admission
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.execution.decide import decide
from airflow_abs.execution.task_end import error_to_json, succeed
from airflow_abs.hooks.storage import open_path


class DecideTrigger(BaseTrigger):
    """Decides in a thread of the triggerer and ends the task. The bytes come from the manifests of the producers, which
    say the same as their XComs: a triggerer has to ask Airflow for each of those by itself.

    Args:
        exchange: templated; Airflow renders it before `run`.
        table_kinds, declarations: as in `DecideOperator`.
    """

    def __init__(
        self,
        *,
        exchange: str,
        job: str,
        region: str,
        table_kinds: Sequence[str] = (),
        declarations: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.exchange = exchange
        self.job = job
        self.region = region
        self.table_kinds = table_kinds
        self.declarations = dict(declarations or {})

    def serialize(self) -> tuple[str, dict[str, Any]]:
        values = {
            "exchange": self.exchange,
            "job": self.job,
            "region": self.region,
            "table_kinds": list(self.table_kinds),
            "declarations": self.declarations,
        }
        return f"{type(self).__module__}.{type(self).__qualname__}", values

    async def run(self) -> AsyncIterator[TriggerEvent]:
        instance: Any = self.task_instance
        try:
            subtasks = await asyncio.to_thread(self._decide, instance.dag_id, instance.run_id)
        except ExchangeError as error:
            self.log.error("%s", error)  # noqa: TRY400 - the worker raises it, with its trace
            yield TriggerEvent({"error": error_to_json(error)})
            return
        task = {"dag_id": instance.dag_id, "run_id": instance.run_id, "task_id": instance.task_id, "map_index": -1}
        yield await succeed(task, self.region, subtasks, mapped_length=len(subtasks))

    def _decide(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        from airflow_abs.exchange.records.reports import read_reports
        from airflow_abs.exchange.records.run_records import RunRecords

        records = RunRecords(JobFolder(open_path(self.exchange), dag_id, run_id, self.job))
        records.plan.check_declared(self.region, self.declarations)
        return decide(records, self.region, partial(read_reports, records), Admission.BOUND, self.table_kinds)
