"""Run a subtask in the triggerer from its start: each with `start_from_trigger=True`, where no worker has it before;
else those of a fan-out beyond the slots, which workers defer at once."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.execution.cancellation import finish
from airflow_abs.execution.ending_together import end_in_batch
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.execution.subtask_start import StartedSubtask
from airflow_abs.execution.task_end import settle


class StartSubtaskTrigger(BaseTrigger):
    """Has a subtask from its start: finds out which one it is, waits for a slot, awaits it and ends its task.

    Args:
        exchange: templated; Airflow renders it before `run`.
        slots: fixed number of slots; None to follow the Spark cluster.
        resource_timeout, resource_stabilization: see `core/slots/resource_wait.py`; seconds.
        stall_after: seconds without progress after which the log warns.
        execution_timeout: seconds that the subtask may have its slot; None for any.
        deferred: whether a worker had it first.
    """

    def __init__(  # noqa: PLR0913 - plain values: Airflow stores and renders them one by one
        self,
        *,
        conn_id: str,
        exchange: str,
        job: str,
        region: str,
        slots: int | None,
        resource_timeout: float,
        resource_stabilization: float,
        stall_after: float,
        execution_timeout: float | None,
        ephemeral: bool = False,
        deferred: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.conn_id = conn_id
        self.exchange = exchange
        self.job = job
        self.region = region
        self.slots = slots
        self.resource_timeout = resource_timeout
        self.resource_stabilization = resource_stabilization
        self.stall_after = stall_after
        self.execution_timeout = execution_timeout
        self.ephemeral = ephemeral
        self.deferred = deferred
        self._subtask: StartedSubtask | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("conn_id", "exchange", "job", "ephemeral", "deferred", "region", "slots")
        limits = ("resource_timeout", "resource_stabilization", "stall_after", "execution_timeout")
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {name: getattr(self, name) for name in (*names, *limits)},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        deferred_at = time.monotonic()
        instance: Any = self.task_instance
        described = SubtaskRun.of(instance, self, {"index": instance.map_index})
        wait = WaitOptions(self.resource_timeout, self.resource_stabilization)
        self._subtask = StartedSubtask(described, self.slots, wait, self.execution_timeout)
        event = await end_in_batch(self, self._subtask.end())
        if self.deferred:
            await settle(event, deferred_at)
        yield event

    async def on_kill(self) -> None:
        if self._subtask is not None:
            await finish(self._subtask.interrupt())
