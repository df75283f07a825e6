"""Recompute lost inputs: rerun their producers' subtasks from the stored plan, and nothing else.

A reader that finds lost results recomputes them. Only one reader does so for each subtask; the others wait for its new
manifest (`claims.py`). A producer's subtask is run like any other (`rounds.py`), so one
whose own inputs are gone has those recomputed first, and so on up to the sources:

    by_region[1] looks at its inputs: enriched[0] is lost
      claims enriched[0], runs its rounds, which look at their inputs: orders[3] is lost
        claims orders[3], runs its rounds, which read a source
        writes the manifest of orders[3]
      looks again, writes the manifest of enriched[0]
    looks again, reads

A producer that is not deterministic has other rows then. Who has read the old ones is recomputed in the same way by
the next reader of its results, or `commit`: they count as lost (`inputs.py`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultManifest
from airflow_abs.exchange.records.tries import read_tries, try_of
from airflow_abs.exchange.results.renewal import is_made_alike, replace_rows
from airflow_abs.exchange.results.written_steps import leave_out_lost
from airflow_abs.exchange.storage.locations import OpenPath
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.errors import InputLostError, RecomputationError
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.claims import ClaimLedger, claim_lost
from airflow_abs.spark.run.execution import ProgressListener
from airflow_abs.spark.run.inputs import InputCheck, LostResults
from airflow_abs.spark.run.rounds import ROUNDS, run_rounds
from airflow_abs.spark.run.subtask_spec import Inputs, SubtaskSpec, count_memory_failures

log = logging.getLogger(__name__)

_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Recovery:
    """Recomputes what one reader needs.

    `owner` names the reader, alike in every process and every try that runs it, so that its successor continues its
    recoveries. One that is part of another names both: two of them at once are two owners.
    """

    connection: Connection
    folder: JobFolder
    owner: str
    open_path: OpenPath
    on_progress: ProgressListener | None = None

    async def ensure_inputs(self, check: InputCheck) -> Inputs:
        """The manifests of all inputs, once every file that is to be read is in place.

        Raises:
            RecomputationError: a producer that is not declared as such produced different rows than before.
            SparkOperationError, ExchangeError: a recomputation failed.
        """
        rounds = ROUNDS * (2 if check.may_change else 1)  # each loss may outdate others, which the next look finds
        for _ in range(rounds):
            inputs, lost = await asyncio.to_thread(check.look)
            if not lost:
                return inputs
            await self.have_again(lost)
        raise InputLostError(
            f"{check.spec.describe()}: input was lost {rounds} times in a row, the last time of "
            f"{', '.join(map(str, lost))}; check the storage of the exchange at {self.folder.path}"
        )

    async def have_again(self, lost: Iterable[LostResults]) -> None:
        """Recompute all of these, or wait for those who do; errors as `ensure_inputs`."""
        gate = asyncio.Semaphore(_AT_ONCE)
        async with _first_error(), asyncio.TaskGroup() as group:
            for each in lost:
                group.create_task(self._recover(each, gate))

    async def _recover(self, lost: LostResults, gate: asyncio.Semaphore) -> None:
        async with gate:
            log.warning("%s", await asyncio.to_thread(lost.explain, self.folder))
            claim = await claim_lost(self.connection, self.folder, self.owner, lost)
            if claim is None:
                return
            ledger = ClaimLedger(self.folder, claim)
            try:
                async with ledger.kept():
                    again = await self._recompute(lost, ledger)
            except Exception:
                ledger.end()
                raise
            ledger.end(again)

    async def _recompute(self, lost: LostResults, ledger: ClaimLedger) -> int:
        """Bytes of what was lost and is there again."""
        started = time.monotonic()
        attempt = SubtaskAttempt(lost.region, lost.index, ledger.claim.attempt, lost.decision)
        spec = await asyncio.to_thread(self._load_spec, attempt)
        before = lost.manifest.results if lost.manifest is not None else {}
        may_change = lost.region in spec.plan.unrepeatable  # then what is left does not go with what is made now
        others = {name: result for name, result in before.items() if name not in lost.results and not may_change}

        def kept(_inputs: str, suspects: Collection[str]) -> Mapping[str, ResultManifest]:
            return leave_out_lost(self.folder, others, suspects)

        inner = replace(self, owner=f"{self.owner} < {lost}")
        written = await run_rounds(inner, spec, attempt, ledger, kept)
        manifest = Manifest(
            region=lost.region,
            index=lost.index,
            attempt=written.attempt.attempt,
            decision=lost.decision,
            seconds=time.monotonic() - started,
            results=written.results,
            read=written.read,
        )
        if lost.manifest is not None and is_made_alike(spec.plan, manifest, lost.manifest):
            _check_same(lost, lost.manifest, manifest)
        await asyncio.to_thread(replace_rows, self.folder, spec.plan, manifest, lost.manifest)
        again = sum(manifest.results[name].bytes for name in lost.results or manifest.results)
        await written.execution.release()
        log.warning("recomputed: %s, %s in %.1f s", attempt, format_bytes(again), time.monotonic() - started)
        return again

    def _load_spec(self, attempt: SubtaskAttempt) -> SubtaskSpec:
        """In the pieces of the try that wrote what is lost: each piece has partial aggregates of its own."""
        tries = read_tries(self.folder, attempt.region, attempt.index, below=try_of(attempt.attempt))
        return SubtaskSpec.load(self.folder, attempt, count_memory_failures(tries, attempt.decision))


def _check_same(lost: LostResults, before: Manifest, after: Manifest) -> None:
    for name in lost.results:
        old, new = before.results[name], after.results[name]
        if (old.rows, old.checksum) != (new.rows, new.checksum):
            moved = ", or its rows went into other files, which a rescale edge reads one by one" if new.by_file else ""
            before_it = format_count(old.rows, "row")
            raise RecomputationError(
                f"{lost}: recomputing its lost result {name} produced different rows than before ({before_it}, "
                f"checksum {old.checksum}; now {new.rows:,}, {new.checksum}): its transform is not deterministic, or "
                f"its source has changed{moved}. Others may have read the old rows: clear {lost.region}.run and "
                "everything after it, and declare the vertex deterministic=False"
            )


@asynccontextmanager
async def _first_error() -> AsyncIterator[None]:
    """Of errors that came side by side, the first; who waits for one exception cannot use a group."""
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None
