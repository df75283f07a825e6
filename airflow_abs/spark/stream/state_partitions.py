"""Into how many partitions the state of a stream is cut: looked at before each start of its query, by who holds the
checkpoint, while nothing runs on it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.core.streaming.state_partitions import find_obstacle
from airflow_abs.core.wording import format_count
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.storage.foreign_logs import SINK_LOG
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.streaming.layout_files import read_layout, sink_has_batch
from airflow_abs.exchange.streaming.lease import CheckpointLease
from airflow_abs.exchange.streaming.repartitioning import (
    Repartitioning,
    begin_repartitioning,
    forget_repartitioning,
    is_whole,
    read_repartitioning,
    undo_repartitioning,
)
from airflow_abs.exchange.streaming.spark_checkpoint import SPARK_FOLDER, SparkCheckpoint, read_spark_checkpoint
from airflow_abs.spark.stream.repartition import (
    RepartitionError,
    RepartitionRequest,
    application_environment,
    run_repartition,
)
from airflow_abs.spark.stream.repartition_application import SILENT_SECONDS

log = logging.getLogger(__name__)

_FIXED = "Spark fixes them with the first batch of a checkpoint; Rescale(repartition_state=...) repartitions it"
_NOT_ALONE = "its last query was on another Spark server, where it may still run; the next start tries it again"
_TRIES = 2
_GRACE_SECONDS = 2.0

FinishBatch = Callable[[], Awaitable[QueryFailure | None]]


@dataclass(slots=True)
class StatePartitions:
    """One process' care for the state of one stream.

    Args:
        who: names the stream, in messages.
        lease: on its checkpoint.
        sink: the folder to which it adds files.
        master: Spark's URL of where state is repartitioned; "": it keeps its partitions.
        on_note: told the outcome, in words.
    """

    who: str
    lease: CheckpointLease
    sink: ExchangePath
    master: str = ""
    on_note: Callable[[str], None] = lambda text: None
    _started_on: int | None = None
    _undone: Counter[int] = field(default_factory=Counter)
    _environment: dict[str, str] = field(default_factory=dict)

    async def prepare(
        self, wanted: int | None, finish_batch: FinishBatch, *, is_alone: bool = True
    ) -> QueryFailure | None:
        """Before the query starts with so many partitions: repair what another process left midway, and repartition.

        Where that is not possible the state keeps its partitions, with the reason in the log.

        Args:
            wanted: None if nothing of the stream follows the slots.
            finish_batch: runs the batch that was begun and not done, and no other; gives why it failed.
            is_alone: whether the query of the last start has surely ended; if not, everything is left as it is.

        Returns:
            Why the query cannot start: the batch that had to be finished failed. None if it can.

        Raises:
            ExchangeError: the checkpoint cannot be read or written, or another process has it by now.
        """
        if is_alone:
            await self._settle()
        kept = await asyncio.to_thread(read_spark_checkpoint, self._spark)
        if wanted is None or kept.state_partitions is None or kept.state_partitions == wanted:
            return None
        obstacle = await asyncio.to_thread(self._obstacle, kept, wanted, is_alone)
        if obstacle:
            partitions = format_count(kept.state_partitions, "partition")
            self._tell(
                f"its state keeps {partitions} instead of {wanted}: {obstacle}",
                logging.WARNING if self.master else logging.INFO,
            )
            return None
        if kept.begun != kept.done:
            log.info(
                "%s: batch %s, which has begun, is completed first; then its state is repartitioned",
                self.who,
                kept.begun,
            )
            failure = await finish_batch()
            kept = await asyncio.to_thread(read_spark_checkpoint, self._spark)
            if failure is not None or kept.begun != kept.done:
                return failure
        await self._repartition(kept, wanted)
        return None

    def _obstacle(self, kept: SparkCheckpoint, wanted: int, is_alone: bool) -> str:
        if not self.master:
            return _FIXED
        if not is_alone:
            return _NOT_ALONE
        if self._undone[wanted] >= _TRIES:
            return f"that was undone {self._undone[wanted]} times; the next try of the task tries it again"
        try:
            self._environment = application_environment()
        except RepartitionError as error:
            return str(error)
        return find_obstacle(read_layout(self._spark, kept.begun or 0))

    async def _repartition(self, kept: SparkCheckpoint, wanted: int) -> None:
        before, began = kept.state_partitions or 0, time.monotonic()
        begun = Repartitioning((kept.done or 0) + 1, before, wanted, self.lease.holder.token)
        await asyncio.to_thread(begin_repartitioning, self.lease.checkpoint, begun)
        spark, log_of_sink = uri_for_spark(self._spark), uri_for_spark(self.sink / SINK_LOG)
        request = RepartitionRequest(self.master, spark, log_of_sink, wanted, begun.batch)
        try:
            await run_repartition(request, self._environment, self._renew)
        except RepartitionError as error:
            await self._undo(begun, str(error))
            return
        self._started_on = begun.batch
        partitions = format_count(wanted, "partition")
        seconds = time.monotonic() - began
        self._tell(f"its state has {partitions} instead of {before} now, as batch {begun.batch} ({seconds:.1f} s)")

    async def _settle(self) -> None:
        """A repartitioning is whole, or is undone; also one that is whole, if its first batch cannot be done."""
        begun = await asyncio.to_thread(read_repartitioning, self.lease.checkpoint)
        if begun is None:
            return
        done = (await asyncio.to_thread(read_spark_checkpoint, self._spark)).done
        if done is not None and done > begun.batch:
            await asyncio.to_thread(forget_repartitioning, self.lease.checkpoint)
        elif not await asyncio.to_thread(is_whole, begun, self.sink):
            if begun.by != self.lease.holder.token:
                log.info("%s: waits until an application that repartitioned its state has surely ended", self.who)
                await asyncio.sleep(SILENT_SECONDS + _GRACE_SECONDS)
                await self._renew()
            await self._undo(begun, "it was left midway")
        elif self._started_on != begun.batch:
            self._started_on = begun.batch
        elif not await asyncio.to_thread(sink_has_batch, self.sink, begun.batch + 1):
            await self._undo(begun, "the query has ended before its first batch with it was done")

    async def _undo(self, begun: Repartitioning, why: str) -> None:
        await asyncio.to_thread(undo_repartitioning, self.lease.checkpoint, self.sink, begun)
        self._undone[begun.after] += 1
        self._started_on = None
        partitions = format_count(begun.before, "partition")
        self._tell(f"its state has {partitions} as before, {begun.after} were undone: {why}", logging.WARNING)

    async def _renew(self) -> None:
        await asyncio.to_thread(self.lease.renew)

    def _tell(self, text: str, level: int = logging.INFO) -> None:
        log.log(level, "%s: %s", self.who, text)
        self.on_note(text)

    @property
    def _spark(self) -> ExchangePath:
        return self.lease.checkpoint / SPARK_FOLDER
