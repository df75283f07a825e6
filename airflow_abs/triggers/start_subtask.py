"""Run a subtask in the triggerer from its start: each with `start_from_trigger=True`, where no worker has it before;
else those of a fan-out beyond the slots, which workers defer at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.slots.slot_pool import SlotDemand
from airflow_abs.exchange.errors import ExchangeError, StaleManifestError
from airflow_abs.exchange.records.tries import TryRecord, begin_try, end_try, read_try
from airflow_abs.triggers.cleared import leave_if_cleared
from airflow_abs.triggers.subtask import SubtaskRun, SubtaskTrigger, settle

# Few: while many threads want the interpreter, the event loop gets it late (with six twice as late as with two).
_readers = ThreadPoolExecutor(2, thread_name_prefix="look-up")


@dataclass(frozen=True, slots=True)
class _Start:
    """What the exchange knows of a try before it runs. `record` is there if another triggerer has begun it."""

    run: SubtaskRun
    wanted: int
    record: TryRecord | None = None

    @property
    def running_since(self) -> float | None:
        """When another triggerer began what runs, in epoch seconds."""
        return self.record.changed if self.record is not None and self.record.state == "running" else None

    @property
    def needs_no_slot(self) -> bool:
        """What is running or done on Spark waits for nobody, nor what another region does today."""
        begun = self.record is not None and self.record.state != "failed"
        return begun or "fused_into" in self.run.subtask


class StartSubtaskTrigger(BaseTrigger):
    """Finds out which subtask it is, waits for a slot, and is a `SubtaskTrigger` from then on.

    Which task instance it is comes from Airflow, everything else from the decision in the exchange: Airflow has no
    trigger arguments by map index. After a crash of the triggerer Airflow starts it again; what ran keeps its slot.

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
        self._running: SubtaskTrigger | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        names = ("conn_id", "exchange", "job", "ephemeral", "deferred", "region", "slots")
        limits = ("resource_timeout", "resource_stabilization", "stall_after", "execution_timeout")
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {name: getattr(self, name) for name in (*names, *limits)},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from airflow_abs.spark.errors import SparkOperationError
        from airflow_abs.triggers.slots import open_slots

        described, deferred_at = self._describe(), time.monotonic()
        try:
            start = await asyncio.get_running_loop().run_in_executor(_readers, look_up, described)
            run = start.run
            demand = SlotDemand(
                f"{run.dag_id}/{run.run_id}",
                start.wanted,
                WaitOptions(self.resource_timeout, self.resource_stabilization),
            )
            async with open_slots(run.spark_hook, self.slots).slot(demand, is_running=start.needs_no_slot):
                began = start.running_since or time.time()
                deadline = None if self.execution_timeout is None else began + self.execution_timeout
                self._running = SubtaskTrigger(**replace(start.run, began=began).to_json(), deadline=deadline)
                event = await self._running.end()
        except (SparkOperationError, ExchangeError) as error:
            self.log.error("%s", error)  # noqa: TRY400 - the worker raises it, with its trace
            if isinstance(error, SparkOperationError):  # it had no slot: a failure that the restart strategy counts
                await asyncio.to_thread(record_failure, start, type(error).__name__)
            event = described.failed(error)
        await leave_if_cleared(self.task_instance)
        if self.deferred:
            await settle(event, deferred_at)
        yield event

    async def on_kill(self) -> None:
        """While it waits for a slot, nothing of it is on Spark."""
        if self._running is not None:
            await self._running.on_kill()

    def _describe(self) -> SubtaskRun:
        instance: Any = self.task_instance
        return SubtaskRun.of(instance, self, {"index": instance.map_index})


def look_up(run: SubtaskRun) -> _Start:
    """Which subtask it is, and how far it got in another triggerer.

    Raises:
        ExchangeError: plan or decision are missing or damaged, or the decision is not the one that mapped the task.
    """
    from airflow_abs.exchange.records.decisions import read_decision_and_digest
    from airflow_abs.exchange.records.plan import read_plan

    folder, index = run.folder, run.map_index
    plan = read_plan(folder)
    if into := plan.fused.get(run.region):
        return _Start(replace(run, subtask={"index": 0, "subtasks": 1, "decision": "", "fused_into": into}), wanted=1)
    stored, digest = read_decision_and_digest(folder, run.region)
    count = stored.decision.parallelism
    if index >= count:
        raise StaleManifestError(
            f"{run.region}: the decision has {count} subtasks, and this is map index {index}; decide ran again: clear "
            f"all subtasks of {run.region}, so that they are mapped anew"
        )
    record = read_try(folder, run.region, index, run.attempt)
    ready = time.time() if stored.measured_at is None else stored.measured_at
    return _Start(
        run=replace(run, subtask={"index": index, "subtasks": count, "decision": digest, "ready": ready}),
        wanted=min(count, plan.slots or 1),
        record=record if record is not None and record.decision == digest else None,
    )


def record_failure(start: _Start, error: str) -> None:
    """Close a try that never came to run."""
    run, decision = start.run, start.run.subtask["decision"]
    now = time.time()
    record = begin_try(run.folder, run.region, run.map_index, run.attempt, decision=decision, now=now)
    end_try(run.folder, run.region, run.map_index, record, error, now)
