"""Start a subtask in the triggerer: find out which one it is, wait for a slot, and await it from then on.

Which task instance it is comes from Airflow, everything else from the decision in the exchange: Airflow has no trigger
arguments by map index.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from airflow.triggers.base import TriggerEvent

from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.slots.slot_pool import SlotDemand
from airflow_abs.exchange.errors import ExchangeError, StaleManifestError
from airflow_abs.exchange.records.tries import TryRecord, begin_try, end_try, read_try
from airflow_abs.execution.subtask import AwaitedSubtask, SubtaskRun

log = logging.getLogger(__name__)

# Few: while many threads want the interpreter, the event loop gets it late (with six twice as late as with two).
_readers = ThreadPoolExecutor(2, thread_name_prefix="look-up")


@dataclass(frozen=True, slots=True)
class SubtaskStart:
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
        """Operations that run or are done need no slot, nor do regions that run inside another one today."""
        begun = self.record is not None and self.record.state != "failed"
        return begun or "fused_into" in self.run.subtask


class StartedSubtask:
    """A subtask from its start in the triggerer: found in the exchange, given a slot, awaited.

    After a crash of the triggerer another one starts it again; what ran keeps its slot.

    Args:
        described: the try; only its map index is known.
        slots: fixed number of slots; None to follow the Spark cluster.
        wait: for them.
        execution_timeout: seconds that it may have its slot; None for any.
    """

    def __init__(
        self, described: SubtaskRun, slots: int | None, wait: WaitOptions, execution_timeout: float | None
    ) -> None:
        self._described = described
        self._slots = slots
        self._wait = wait
        self._execution_timeout = execution_timeout
        self._running: SubtaskRun | None = None

    async def end(self) -> TriggerEvent:
        """As of `AwaitedSubtask`, once it has a slot."""
        from airflow_abs.execution.slots import open_slots
        from airflow_abs.spark.errors import SparkOperationError

        try:
            start = await asyncio.get_running_loop().run_in_executor(_readers, look_up, self._described)
            demand = SlotDemand(f"{start.run.dag_id}/{start.run.run_id}", start.wanted, self._wait)
            async with open_slots(start.run.spark_hook, self._slots).slot(demand, is_running=start.needs_no_slot):
                began = start.running_since or time.time()
                deadline = None if self._execution_timeout is None else began + self._execution_timeout
                self._running = replace(start.run, began=began)
                return await AwaitedSubtask(self._running, deadline).end()
        except (SparkOperationError, ExchangeError) as error:
            log.error("%s", error)  # noqa: TRY400 - the worker raises it, with its trace
            if isinstance(error, SparkOperationError):  # it had no slot: a failure that the restart strategy counts
                await asyncio.to_thread(record_failure, start, type(error).__name__)
            return self._described.failed(error)

    async def interrupt(self) -> None:
        """While it waits for a slot, nothing of it is on Spark."""
        if self._running is not None:
            await self._running.interrupt()


def look_up(run: SubtaskRun) -> SubtaskStart:
    """Which subtask it is, and how far it got in another triggerer.

    Raises:
        ExchangeError: plan or decision are missing or damaged, or the decision is not the one that mapped the task.
    """
    from airflow_abs.exchange.records.decisions import read_decision_and_digest
    from airflow_abs.exchange.records.plan import read_plan

    folder, index = run.folder, run.map_index
    plan = read_plan(folder)
    if into := plan.fused.get(run.region):
        return SubtaskStart(
            replace(run, subtask={"index": 0, "subtasks": 1, "decision": "", "fused_into": into}), wanted=1
        )
    stored, digest = read_decision_and_digest(folder, run.region)
    count = stored.decision.parallelism
    if index >= count:
        raise StaleManifestError(
            f"{run.region}: the decision has {count} subtasks, and this is map index {index}; decide ran again: clear "
            f"all subtasks of {run.region} to map them again"
        )
    record = read_try(folder, run.region, index, run.attempt)
    ready = time.time() if stored.measured_at is None else stored.measured_at
    return SubtaskStart(
        run=replace(run, subtask={"index": index, "subtasks": count, "decision": digest, "ready": ready}),
        wanted=min(count, plan.slots or 1),
        record=record if record is not None and record.decision == digest else None,
    )


def record_failure(start: SubtaskStart, error: str) -> None:
    """Close a try that never came to run."""
    run, decision = start.run, start.run.subtask["decision"]
    now = time.time()
    record = begin_try(run.folder, run.region, run.map_index, run.attempt, decision=decision, now=now)
    end_try(run.folder, run.region, run.map_index, record, error, now)
