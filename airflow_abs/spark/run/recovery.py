"""Have lost inputs again: run their producers' subtasks once more, from the stored plan, and nothing else.

Whoever wants to read and finds something lost recomputes it, one reader for each lost partition while the others wait
for its new manifest. A producer whose own inputs are gone has those recomputed first, and so on up to the sources.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from airflow_abs.core.wording import format_bytes
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.records.manifest import Manifest, ResultManifest, read_manifest, write_manifest
from airflow_abs.exchange.records.paths import JobFolder
from airflow_abs.exchange.records.recovery_claim import (
    LEASE_SECONDS,
    RecoveryClaim,
    claim_recovery,
    end_claim,
    find_claims,
    renew_claim,
)
from airflow_abs.exchange.records.tries import next_attempt
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import interrupt_tag
from airflow_abs.spark.errors import InputLostError, RecomputationError, SparkOperationError, TransientSparkError
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.execution import AttemptExecution, ProgressListener
from airflow_abs.spark.run.inputs import InputCheck, LostPartition, files_read, still_whole
from airflow_abs.spark.run.work import AttemptWork, Inputs, SubtaskSpec

log = logging.getLogger(__name__)

# Input that is lost again and again is no accident any more.
ROUNDS = 4
_POLL_SECONDS = 0.5
_WAIT_SECONDS = 3600.0
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recomputes what one reader needs.

    `owner` names the reader, alike in every process and every try that runs it: whoever goes on with it goes on with
    its recoveries. One that is part of another names both: two of them at once are two owners.
    """

    connection: Connection
    folder: JobFolder
    owner: str
    on_progress: ProgressListener | None = None

    async def ensure_inputs(self, check: InputCheck) -> Inputs:
        """The manifests of all inputs, once every file that is to be read is in place.

        Raises:
            RecomputationError: a producer is declared not deterministic, or gave other rows than before.
            SparkOperationError, ExchangeError: a recomputation failed.
        """
        for _ in range(ROUNDS):
            inputs, lost = await asyncio.to_thread(check.look)
            if not lost:
                return inputs
            gate = asyncio.Semaphore(_AT_ONCE)
            async with _first_error(), asyncio.TaskGroup() as group:
                for partition in lost:
                    group.create_task(self._recover(check.spec, partition, gate))
        raise InputLostError(
            f"{check.spec.describe()}: input was lost {ROUNDS} times in a row, the last time of "
            f"{', '.join(map(str, lost))}; check the storage of the exchange at {self.folder.path}"
        )

    async def _recover(self, reader: SubtaskSpec, lost: LostPartition, gate: asyncio.Semaphore) -> None:
        async with gate:
            if not reader.plan.region(lost.region).deterministic:
                raise RecomputationError(
                    f"lost input of {reader.describe()}: {lost.describe()}; its producer is declared "
                    f"deterministic=False, so it is not recomputed: clear {lost.region}.run and everything after it"
                )
            log.warning("lost: %s", lost.describe())
            claim = await self._claim(lost)
            if claim is None:
                return
            ledger = _ClaimLedger(self.folder, claim)
            try:
                async with ledger.kept():
                    again = await self._recompute(lost, ledger)
            except Exception:
                ledger.end()
                raise
            ledger.end(again)

    async def _claim(self, lost: LostPartition) -> RecoveryClaim | None:
        """The right to recompute; None when somebody else has done it."""
        started, attempt = time.monotonic(), lost.manifest.attempt if lost.manifest else 1
        waiting = False
        while time.monotonic() - started < _WAIT_SECONDS:
            if self._is_replaced(lost):
                return None
            claimed = await asyncio.to_thread(
                claim_recovery, self.folder, lost.region, lost.index,
                decision=lost.decision, owner=self.owner, lost_attempt=attempt, now=time.time(),
            )  # fmt: skip
            if claimed is not None and self._is_replaced(lost):  # between the two looks
                end_claim(self.folder, claimed.claim)
                return None
            if claimed is not None:
                await self._stop_stale(lost, claimed.stale)
                return claimed.claim
            if not waiting:
                log.info("%s is being recomputed by another subtask; waiting for it", lost)
            waiting = True
            await asyncio.sleep(_POLL_SECONDS)
        raise TransientSparkError(
            f"{self.owner}: waited {_WAIT_SECONDS:g} s for another subtask to recompute {lost}; expected its manifest. "
            f"Its recovery-*.json in {self.folder.subtask_path(lost.region, lost.index)} says who; look at that log"
        )

    def _is_replaced(self, lost: LostPartition) -> bool:
        try:
            manifest = read_manifest(self.folder, lost.region, lost.index, decision=lost.decision)
        except (MissingFileError, DamagedFileError):
            return False
        return lost.manifest is None or manifest.attempt != lost.manifest.attempt

    async def _stop_stale(self, lost: LostPartition, attempt: int | None) -> None:
        if attempt is not None:
            stale = SubtaskAttempt(lost.region, lost.index, attempt, lost.decision)
            await interrupt_attempt(self.connection, self.folder, stale)

    async def _recompute(self, lost: LostPartition, ledger: _ClaimLedger) -> int:
        """Bytes of what was lost and is there again."""
        started = time.monotonic()
        attempt = SubtaskAttempt(lost.region, lost.index, ledger.claim.attempt, lost.decision)
        spec = await asyncio.to_thread(SubtaskSpec.load, self.folder, attempt)
        kept: dict[str, ResultManifest] = {}
        if lost.manifest is not None:
            kept = {name: result for name, result in lost.manifest.results.items() if name not in lost.results}
        inner = replace(self, owner=f"{self.owner} < {lost}")
        written = await run_rounds(inner, spec, attempt, ledger, kept)
        manifest = Manifest(
            region=lost.region,
            index=lost.index,
            attempt=written.attempt.attempt,
            decision=lost.decision,
            seconds=time.monotonic() - started,
            results=written.results,
        )
        if lost.manifest is not None:
            _check_same(lost, lost.manifest, manifest)
        await asyncio.to_thread(write_manifest, self.folder, manifest)
        again = sum(manifest.results[name].bytes for name in lost.results or manifest.results)
        await written.execution.release()
        log.warning("recomputed: %s, %s in %.1f s", attempt, format_bytes(again), time.monotonic() - started)
        return again


@dataclass(frozen=True, slots=True)
class Written:
    """What an attempt wrote, under the number with which it came through."""

    attempt: SubtaskAttempt
    results: Mapping[str, ResultManifest]
    execution: AttemptExecution


class AttemptLedger(Protocol):
    """Remembers, for whoever takes over, under which number an attempt runs and which inputs it reads."""

    def start(self, attempt: int, inputs: str) -> int:
        """Store both before anything is sent to Spark; the number to run under, a later one if the inputs changed."""


async def run_rounds(
    recovery: Recovery,
    spec: SubtaskSpec,
    attempt: SubtaskAttempt,
    ledger: AttemptLedger,
    kept: Mapping[str, ResultManifest],
) -> Written:
    """Run an attempt; when its input is lost meanwhile, have that again and start over under the next number."""
    check = InputCheck(spec)
    for _ in range(ROUNDS):
        inputs = await recovery.ensure_inputs(check)
        number = await asyncio.to_thread(ledger.start, attempt.attempt, describe_inputs(inputs))
        if number != attempt.attempt:  # what runs may have read what was lost since
            await interrupt_attempt(recovery.connection, spec.folder, attempt)
            attempt = replace(attempt, attempt=number)
        work = await asyncio.to_thread(AttemptWork.of, spec, attempt, inputs, kept)
        execution = AttemptExecution(recovery.connection, work, recovery.on_progress)
        try:
            results = await execution.run()
            if await asyncio.to_thread(still_whole, spec.folder, files_read(spec, inputs)):
                return Written(attempt, results, execution)
        except InputLostError as error:
            if not check.suspect(error.paths):
                raise _explain_source(spec, error) from None
        attempt = replace(attempt, attempt=next_attempt(attempt.attempt))
    raise InputLostError(f"{spec.describe()}: input was lost {ROUNDS} times in a row while it was read")


async def interrupt_recoveries(connection: Connection, folder: JobFolder, owner: str) -> None:
    """Stop what a reader recomputes, and what is recomputed for that."""
    for claim in await asyncio.to_thread(find_claims, folder, owner):
        stale = SubtaskAttempt(claim.region, claim.index, claim.attempt, claim.decision)
        await interrupt_attempt(connection, folder, stale)
        await asyncio.to_thread(end_claim, folder, claim)


async def interrupt_attempt(connection: Connection, folder: JobFolder, attempt: SubtaskAttempt) -> None:
    """Stop the attempt's Spark operations, if any run."""
    await interrupt_tag(connection, attempt.session_id(folder), attempt.tag(folder))


def describe_inputs(inputs: Inputs) -> str:
    """A digest of which attempts are read."""
    attempts = {region: [manifest.attempt for manifest in manifests] for region, manifests in inputs.items()}
    return hashlib.sha256(json.dumps(attempts, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(slots=True)
class _ClaimLedger:
    """Remembers in the claim, whose lease it keeps."""

    folder: JobFolder
    claim: RecoveryClaim

    def start(self, attempt: int, inputs: str) -> int:
        changed = self.claim.inputs not in ("", inputs) and attempt == self.claim.attempt
        number = next_attempt(attempt) if changed else attempt
        if number != self.claim.attempt:
            self.end()
        self.claim = replace(self.claim, attempt=number, inputs=inputs)
        self._renew()
        return number

    def end(self, recomputed_bytes: int = 0) -> None:
        end_claim(self.folder, self.claim, recomputed_bytes)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await asyncio.sleep(LEASE_SECONDS / 6)
                await asyncio.to_thread(self._renew)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await renewing

    def _renew(self) -> None:
        self.claim = renew_claim(self.folder, self.claim, time.time())


def _explain_source(spec: SubtaskSpec, error: InputLostError) -> SparkOperationError:
    if not spec.region.sources:
        return error
    name = spec.region.name
    return error.with_context(
        f"this is a source file, listed when {name}.decide ran; if it was replaced since, clear {name}.decide and "
        "everything after it"
    )


def _check_same(lost: LostPartition, before: Manifest, after: Manifest) -> None:
    for name in lost.results:
        old, new = before.results[name], after.results[name]
        if (old.rows, old.checksum) != (new.rows, new.checksum):
            moved = ", or its rows went into other files, which a rescale edge reads one by one" if new.by_file else ""
            raise RecomputationError(
                f"{lost}: recomputing its lost result {name} gave other rows than before ({old.rows} rows, checksum "
                f"{old.checksum}; now {new.rows}, {new.checksum}): its transform is not deterministic, or its source "
                f"has changed{moved}. Others may have read the old rows: clear {lost.region}.run and everything after "
                "it, and declare the vertex deterministic=False"
            )


@asynccontextmanager
async def _first_error() -> AsyncIterator[None]:
    """Of errors that came side by side, the first; who waits for one exception cannot use a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
