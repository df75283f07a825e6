"""Run one try of one subtask: see that its inputs are there, execute it on Spark, commit its manifest.

No user code and no DataFrame API. The same coroutine runs in a worker, in the triggerer, or first in the one and
then in the other: everything it sends is derived from the run, the region, the map index and the attempt, so sending
it again attaches to what already runs. The outcome of a try is recorded beside the manifest
(`exchange/records/tries.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultManifest, read_manifest
from airflow_abs.exchange.records.tries import (
    TryRecord,
    begin_try,
    end_try,
    read_tries,
    read_try,
    write_try,
)
from airflow_abs.exchange.results.renewal import replace_rows
from airflow_abs.exchange.results.written_steps import find_whole, read_written
from airflow_abs.exchange.storage.locations import OpenPath
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.errors import (
    OperationCancelledError,
    OperationTakenOverError,
    SparkOperationError,
    SubtaskOutOfMemoryError,
    TransientSparkError,
    UnsplittableMemoryError,
    UserCodeError,
)
from airflow_abs.spark.hot_keys import searching_hot_key
from airflow_abs.spark.run.attempt import SubtaskAttempt, interrupt_attempt
from airflow_abs.spark.run.claims import interrupt_recoveries
from airflow_abs.spark.run.execution import ProgressListener
from airflow_abs.spark.run.pieces import keeps_steps, why_it_stays_whole
from airflow_abs.spark.run.recovery import Recovery
from airflow_abs.spark.run.rounds import Written, number_to_start, run_rounds
from airflow_abs.spark.run.subtask_spec import SubtaskSpec, count_memory_failures

__all__ = ["ProgressListener", "SubtaskAttempt", "find_committed", "interrupt_subtask", "run_subtask"]

log = logging.getLogger(__name__)


async def run_subtask(
    connection: Connection,
    folder: JobFolder,
    wanted: SubtaskAttempt,
    open_path: OpenPath,
    *,
    on_progress: ProgressListener | None = None,
    waited: float | None = None,
    spent: float = 0.0,
) -> Manifest:
    """Run a try to its end, or take over where another process left it. Cancelling it leaves Spark running.

    Args:
        wanted: the subtask, with Airflow's try number as its attempt.
        open_path: opens the path of a source.
        waited: seconds from when it could have run until it began; stands in its manifest.
        spent: seconds since then, in the process that it is taken over from.

    Raises:
        SparkOperationError: one of its kinds; what Spark said first, then where it happened.
        ExchangeError: the plan, the decision or an input cannot be read, or the manifest not be written.
    """
    run = await asyncio.to_thread(_TryRun.begin, connection, folder, wanted, open_path, on_progress)
    run.before = await asyncio.to_thread(_find_manifest, folder, wanted)
    if run.before is not None and _is_of(run.before, run.attempt):
        return run.before
    try:
        return await run.to_manifest(waited, spent)
    except OperationTakenOverError:
        raise
    except (SparkOperationError, ExchangeError) as error:
        committed = await asyncio.to_thread(find_committed, folder, run.attempt)
        if committed is not None:  # another process ran the same attempt faster, and released what we listened to
            return committed
        await asyncio.to_thread(run.end, type(error).__name__)
        raise run.explain(error) from error.__cause__


async def interrupt_subtask(connection: Connection, folder: JobFolder, wanted: SubtaskAttempt) -> None:
    """Stop the try's Spark operations, if any run; its siblings in the same session continue."""
    record = await asyncio.to_thread(read_try, folder, wanted.region, wanted.index, wanted.attempt)
    if record is not None and record.decision == wanted.decision:
        ended = OperationCancelledError.__name__
        await asyncio.to_thread(end_try, folder, wanted.region, wanted.index, record, ended, time.time())
        wanted = replace(wanted, attempt=record.attempt)
    await interrupt_attempt(connection, folder, wanted)
    await interrupt_recoveries(connection, folder, str(wanted))


def find_committed(folder: JobFolder, attempt: SubtaskAttempt) -> Manifest | None:
    """The manifest that this very attempt wrote, if it got so far."""
    manifest = _find_manifest(folder, attempt)
    return manifest if manifest is not None and _is_of(manifest, attempt) else None


def _find_manifest(folder: JobFolder, of: SubtaskAttempt) -> Manifest | None:
    try:
        return read_manifest(folder, of.region, of.index)
    except MissingFileError:
        return None


def _is_of(manifest: Manifest, attempt: SubtaskAttempt) -> bool:
    return (manifest.attempt, manifest.decision) == (attempt.attempt, attempt.decision)


@dataclass(slots=True)
class _TryRun:
    """One of Airflow's tries at a subtask: the ledger of its attempt, and what its errors need to be understood.

    `before` is the manifest that it replaces.
    """

    connection: Connection
    folder: JobFolder
    record: TryRecord
    region: str
    index: int
    tries: Sequence[TryRecord]
    open_path: OpenPath
    on_progress: ProgressListener | None
    spec: SubtaskSpec | None = None
    before: Manifest | None = None

    @classmethod
    def begin(
        cls,
        connection: Connection,
        folder: JobFolder,
        wanted: SubtaskAttempt,
        open_path: OpenPath,
        on_progress: ProgressListener | None,
    ) -> _TryRun:
        region, index, number, decision = wanted.region, wanted.index, wanted.attempt, wanted.decision
        record = begin_try(folder, region, index, number, decision=decision, now=time.time())
        tries = read_tries(folder, region, index, below=number)
        return cls(connection, folder, record, region, index, tries, open_path, on_progress)

    @property
    def attempt(self) -> SubtaskAttempt:
        return SubtaskAttempt(self.region, self.index, self.record.attempt, self.record.decision)

    @property
    def earlier(self) -> list[TryRecord]:
        """The tries before under the same decision."""
        return [entry for entry in self.tries if entry.decision == self.record.decision]

    @property
    def is_adopted(self) -> bool:
        """Whether it continues the attempt of an earlier try."""
        return any(entry.attempt == self.record.attempt for entry in self.earlier)

    @property
    def memory_failures(self) -> int:
        return count_memory_failures(self.tries, self.record.decision)

    def start(self, attempt: int, inputs: str) -> int:
        """The ledger's part; see `AttemptLedger`."""
        record = self.record
        number = number_to_start(attempt, inputs, stored=record)
        self.record = replace(record, attempt=number, inputs=inputs, state="running", error="", changed=time.time())
        write_try(self.folder, self.region, self.index, self.record)
        return number

    def end(self, error: str) -> None:
        end_try(self.folder, self.region, self.index, self.record, error, time.time())

    async def to_manifest(self, waited: float | None, spent: float) -> Manifest:
        started = time.monotonic()
        self.spec = await asyncio.to_thread(self._load_spec)
        if self.memory_failures:
            log.warning(self._describe_split(self.spec))
        async with searching_hot_key(self.connection, self.spec, self.attempt):
            return await self._to_manifest(waited, spent, started)

    async def _to_manifest(self, waited: float | None, spent: float, started: float) -> Manifest:
        if self.is_adopted:
            log.info("the previous try ended without a record; continuing with attempt %d", self.record.attempt)
            written = await self._run_adopted()
        else:
            await self._stop_earlier()
            written = await self._run()
        manifest = Manifest(
            region=self.region,
            index=self.index,
            attempt=written.attempt.attempt,
            decision=self.record.decision,
            seconds=time.monotonic() - started + spent,
            results=written.results,
            waited=waited,
            read=written.read,
            inner=written.execution.work.inner,
            passed=written.execution.work.passed,
            uncounted=written.execution.work.uncounted,
            spent=written.execution.work.spent,
        )
        assert self.spec is not None  # noqa: S101
        manifest = await asyncio.to_thread(replace_rows, self.folder, self.spec.plan, manifest, self.before)
        await asyncio.to_thread(self.end, "")
        await written.execution.release()
        return manifest

    def _load_spec(self) -> SubtaskSpec:
        """What this attempt runs: after one that failed and kept nothing, steps that are kept.

        A process that takes over the attempt must come to the same: it depends only on attempts that are over.
        """
        spec = SubtaskSpec.load(self.folder, self.attempt, self.memory_failures)
        over = [each for each in self.earlier if each.attempt != self.record.attempt and each.state != "committed"]
        if not over or not spec.region.retry_steps or any(self._kept_by(each, spec) for each in over):
            return spec
        vertices = ", ".join(spec.region.vertices)
        log.info("an earlier try failed: running %s step by step, and keeping each result", vertices)
        return spec.as_retry()

    def _kept_by(self, failed: TryRecord, spec: SubtaskSpec) -> bool:
        """Whether an attempt came far enough for the steps of a first try to continue behind it."""
        noted = read_written(self.folder, self.region, self.index, failed.attempt, decision=failed.decision)
        return spec.region.steps[0].result in noted

    async def _run(self) -> Written:
        assert self.spec is not None  # noqa: S101
        recovery = Recovery(self.connection, self.folder, str(self.attempt), self.open_path, self.on_progress)
        return await run_rounds(recovery, self.spec, self.attempt, self, self._written_before)

    def _written_before(self, inputs: str, suspects: Collection[str]) -> Mapping[str, ResultManifest]:
        """By this attempt, in whatever process, or else by the last try that read the same and came so far."""
        assert self.spec is not None  # noqa: S101
        region, decision = self.spec.region, self.record.decision
        if not keeps_steps(region):
            return {}
        tries = [entry.attempt for entry in reversed(self.earlier) if entry.inputs == inputs]
        for attempt in dict.fromkeys([self.record.attempt, *tries]):
            noted = read_written(self.folder, region.name, self.index, attempt, decision=decision)
            if found := find_whole(self.folder, region.steps, noted, suspects):
                log.info("continuing after what attempt %d has written: %s", attempt, ", ".join(found))
                return found
        return {}

    async def _run_adopted(self) -> Written:
        try:
            return await self._run()
        except (TransientSparkError, OperationCancelledError) as error:
            if isinstance(error, OperationTakenOverError):
                raise
            log.info("nothing is left of that attempt (%s); starting one of its own", str(error).partition("\n")[0])
            self.record = replace(self.record, attempt=self.record.number, inputs="")
            self.spec = await asyncio.to_thread(self._load_spec)
            return await self._run()

    async def _stop_earlier(self) -> None:
        """What an earlier try left running on Spark would only take the cores away; under another decision, too."""
        for attempt, decision in dict.fromkeys((entry.attempt, entry.decision) for entry in self.tries):
            stale = replace(self.attempt, attempt=attempt, decision=decision)
            await interrupt_attempt(self.connection, self.folder, stale)

    def explain(self, error: Exception) -> Exception:
        """The error with where it happened, and what can be done about it."""
        where = self.spec.describe() if self.spec is not None else str(self.attempt)
        context = f"in {where}, try {self.record.number}"
        if not isinstance(error, SparkOperationError):
            return error
        if type(error) is SubtaskOutOfMemoryError and self.spec is not None and self._cannot_shrink(self.spec):
            advice = self._describe_memory_advice(self.spec)
            error = UnsplittableMemoryError(error.message, error_class=error.error_class, causes=error.causes)
            context = f"{context}; {advice}"
        if type(error) is UserCodeError and error.error_class.startswith("FAILED_READ_FILE") and self.spec is not None:
            expected = (f"{source.label} ({source.describe_columns()})" for source in self.spec.region.sources)
            context = f"{context}; sources and their columns: {', '.join(expected)}"
        return error.with_context(context)

    def _cannot_shrink(self, spec: SubtaskSpec) -> bool:
        """Whether it already ran in as many pieces as there can be, with settings that spare memory."""
        return self.memory_failures > 0 and 2**self.memory_failures > spec.largest_cut

    def _describe_split(self, spec: SubtaskSpec) -> str:
        count = min(2**self.memory_failures, spec.largest_cut)
        spared = ", with settings that spill to disk" if self._cannot_shrink(spec) else ""
        times = "once" if self.memory_failures == 1 else f"{self.memory_failures} times"
        return f"out of memory {times} before: running in {format_count(count, 'piece')}{spared}"

    def _describe_memory_advice(self, spec: SubtaskSpec) -> str:
        parts = format_count(spec.largest_cut, "part")
        reason = why_it_stays_whole(spec.region) or f"its range has only {parts} to cut"
        return (
            f"it ran out of memory with settings that spill to disk, too, and cannot be cut any further: {reason}. "
            "Give Spark's executors more memory, raise max_parallelism (smaller subpartitions), or spread a hot key"
        )
