"""Run an attempt in rounds, until one of them read nothing that was lost.

    inputs whole?  --no-->  have them again (`recovery.py`), which runs rounds of its producers, and so on up
         | yes
    ledger: under which number?      another than before if the inputs are others: what runs under the old
         |                           number is stopped
    run it on Spark
         |
    what it read still whole, and still what counts?  --no, or Spark could not read it-->  the next number,
         | yes                                                                              the next round
      written

A round has a number of its own because the same number would attach to the operations of the round before it.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_abs.exchange.paths import is_landed
from airflow_abs.exchange.records.manifest import AttemptsRead, ResultManifest, attempts_read
from airflow_abs.exchange.records.tries import next_attempt
from airflow_abs.exchange.sources.changed_files import find_changed
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.locations import ExchangePath, OpenPath
from airflow_abs.spark.catalog.unchanged_files import explain_lost
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.errors import InputLostError, SourceChangedError, SparkOperationError, UserCodeError
from airflow_abs.spark.run.attempt import SubtaskAttempt, interrupt_attempt
from airflow_abs.spark.run.execution import AttemptExecution, ProgressListener
from airflow_abs.spark.run.inputs import InputCheck, files_read, still_whole
from airflow_abs.spark.run.subtask_spec import Inputs, SubtaskSpec
from airflow_abs.spark.run.work import AttemptWork

# Input that is lost again and again is no accident any more.
ROUNDS = 4


class InputSource(Protocol):
    """Sees to it that inputs are there; `recovery.py` has one."""

    @property
    def connection(self) -> Connection: ...

    @property
    def open_path(self) -> OpenPath: ...

    @property
    def on_progress(self) -> ProgressListener | None: ...

    async def ensure_inputs(self, check: InputCheck) -> Inputs:
        """The manifests of all inputs, once every file that is to be read is in place."""


class AttemptLedger(Protocol):
    """Remembers, for a process that takes over and must send the same request, under which number an attempt runs and
    which inputs it reads: an Airflow try in its record (`subtask.py`), a recovery in its claim (`claims.py`)."""

    def start(self, attempt: int, inputs: str) -> int:
        """Store both before anything is sent to Spark; the number to run under, a later one if the inputs changed."""


class StoredAttempt(Protocol):
    """What a ledger has stored; `inputs` is "" until an attempt was started."""

    @property
    def attempt(self) -> int: ...

    @property
    def inputs(self) -> str: ...


_COPY = "this is a copy of a table's rows, which plan made and release deletes; clear plan and everything after it"

KeptResults = Callable[[str, Collection[str]], Mapping[str, ResultManifest]]
"""Whole results of earlier attempts, from the digest of the inputs that are read now and from the files that Spark
could not read."""


@dataclass(frozen=True, slots=True)
class Written:
    """What an attempt wrote, under the number with which it came through."""

    attempt: SubtaskAttempt
    results: Mapping[str, ResultManifest]
    execution: AttemptExecution
    inputs: Inputs

    @property
    def read(self) -> Mapping[str, tuple[AttemptsRead, ...]]:
        """Which attempts it was made of, by producer region."""
        return {region: attempts_read(manifests) for region, manifests in self.inputs.items()}


async def run_rounds(
    source: InputSource,
    spec: SubtaskSpec,
    attempt: SubtaskAttempt,
    ledger: AttemptLedger,
    kept: KeptResults,
) -> Written:
    """Run an attempt; when its input is lost meanwhile, have that again and start over under the next number.

    Args:
        source: of the inputs.
        spec: what is to be run.
        attempt: its number is that of the first round.
        ledger: is told of each round before Spark is.
        kept: gives the results that need not be written again.

    Raises:
        InputLostError: input was lost in every round, or is a source file.
        SourceChangedError: a file of a source is not what `decide` or `plan` listed.
        SparkOperationError, ExchangeError: a round failed otherwise.
    """
    check = InputCheck(spec)
    for _ in range(ROUNDS):
        inputs = await source.ensure_inputs(check)
        digest = describe_inputs(inputs)
        number = await asyncio.to_thread(ledger.start, attempt.attempt, digest)
        if number != attempt.attempt:  # what runs may have read what was lost since
            await interrupt_attempt(source.connection, spec.folder, attempt)
            attempt = replace(attempt, attempt=number)
        found = await asyncio.to_thread(kept, digest, check.suspects)
        work = await asyncio.to_thread(AttemptWork.of, spec, attempt, inputs, found)
        execution = AttemptExecution(source.connection, work, source.on_progress)
        try:
            results = await execution.run()
            await _check_sources(source, spec)
            if await asyncio.to_thread(_is_still_there, check, inputs):
                return Written(attempt, results, execution, inputs)
        except (InputLostError, UserCodeError) as error:
            if isinstance(error, UserCodeError):
                await _check_sources(source, spec)
                raise
            if not check.suspect(error.paths):
                await _check_sources(source, spec)
                raise _explain_source(spec, error) from None
        attempt = replace(attempt, attempt=next_attempt(attempt.attempt))
    raise InputLostError(f"{spec.describe()}: input was lost {ROUNDS} times in a row while it was read")


def number_to_start(attempt: int, inputs: str, *, stored: StoredAttempt) -> int:
    """The number to run an attempt under: the next one if what is stored of it read other inputs.

    Under another number nothing of it attaches to operations that may have read what was lost since.
    """
    is_changed = stored.attempt == attempt and stored.inputs not in ("", inputs)
    return next_attempt(attempt) if is_changed else attempt


def describe_inputs(inputs: Inputs) -> str:
    """A digest of the attempts that are read."""
    attempts = {region: [manifest.attempt for manifest in manifests] for region, manifests in inputs.items()}
    return hashlib.sha256(json.dumps(attempts, sort_keys=True).encode()).hexdigest()[:16]


def _is_still_there(check: InputCheck, inputs: Inputs) -> bool:
    return still_whole(check.spec.folder, files_read(check.spec, inputs)) and check.is_still(inputs)


async def _check_sources(source: InputSource, spec: SubtaskSpec) -> None:
    """What was read, or could not be, is what was decided about."""
    for each in spec.region.sources:
        if each.files is None:
            await check_copy(each.label, spec.reads.files[each.name], spec.folder.root)
            continue
        changed = await asyncio.to_thread(find_changed, each.files.path, spec.reads.files[each.name], source.open_path)
        if changed is not None:
            by, task = ("decide", f"{spec.region.name}.decide") if each.taken is None else ("plan", "plan")
            raise SourceChangedError(
                f"source {each.label}: {changed}: not the file that {by} listed. Clear {task} and everything after "
                "it (plan as well if the columns are others now), and do not overwrite files of a source while a run "
                "reads it"
            )


async def check_copy(source: str, files: Sequence[SourceFile], root: ExchangePath) -> None:
    """What was read of a table's rows that `plan` copied is what it wrote.

    Args:
        source: for the message.
        files: that were read; those that are no such copies are passed over.
        root: of the exchange.

    Raises:
        SourceChangedError: names the first that has another size, or is gone.
    """
    copied = [file for file in files if is_landed(file.path)]
    changed = await asyncio.to_thread(find_changed, source, copied, lambda _: root)
    if changed is not None:
        raise SourceChangedError(
            f"source {source}: {changed}: {_COPY}, and let only Airflow and Spark write to the exchange"
        )


def _explain_source(spec: SubtaskSpec, error: InputLostError) -> SparkOperationError:
    if not spec.region.sources:
        return error
    if (changed := explain_lost(spec, error)) is not None:
        return changed
    name = spec.region.name
    if any(is_landed(path) for path in error.paths):
        return error.with_context(_COPY)
    return error.with_context(
        f"this is a source file, listed when {name}.decide ran; if it was replaced since, clear {name}.decide and "
        "everything after it"
    )
