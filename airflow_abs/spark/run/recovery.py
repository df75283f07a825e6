"""Recompute lost inputs: rerun their producers' subtasks from the stored plan, and nothing else.

Whoever wants to read and finds something lost recomputes it, one reader for each subtask whose results are lost, while
the others wait for its new manifest (`claims.py`). A producer's subtask is run like any other (`rounds.py`), so one
whose own inputs are gone has those recomputed first, and so on up to the sources:

    by_region[1] looks at its inputs: enriched[0] is lost
      claims enriched[0], runs its rounds, which look at their inputs: orders[3] is lost
        claims orders[3], runs its rounds, which read a source
        writes the manifest of orders[3]
      looks again, writes the manifest of enriched[0]
    looks again, reads
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultManifest, write_manifest
from airflow_abs.exchange.results.written_steps import leave_out_lost
from airflow_abs.exchange.storage.locations import OpenPath
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.errors import InputLostError, RecomputationError
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.claims import ClaimLedger, claim_lost
from airflow_abs.spark.run.execution import ProgressListener
from airflow_abs.spark.run.inputs import InputCheck, LostResults
from airflow_abs.spark.run.rounds import ROUNDS, run_rounds
from airflow_abs.spark.run.subtask_spec import Inputs, SubtaskSpec

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
            RecomputationError: a producer is declared not deterministic, or produced different rows than before.
            SparkOperationError, ExchangeError: a recomputation failed.
        """
        for _ in range(ROUNDS):
            inputs, lost = await asyncio.to_thread(check.look)
            if not lost:
                return inputs
            gate = asyncio.Semaphore(_AT_ONCE)
            async with _first_error(), asyncio.TaskGroup() as group:
                for each in lost:
                    group.create_task(self._recover(check.spec, each, gate))
        raise InputLostError(
            f"{check.spec.describe()}: input was lost {ROUNDS} times in a row, the last time of "
            f"{', '.join(map(str, lost))}; check the storage of the exchange at {self.folder.path}"
        )

    async def _recover(self, reader: SubtaskSpec, lost: LostResults, gate: asyncio.Semaphore) -> None:
        async with gate:
            if not reader.plan.region(lost.region).deterministic:
                raise RecomputationError(
                    f"lost input of {reader.describe()}: {lost.describe()}; its producer is declared "
                    f"deterministic=False, so it is not recomputed: clear {lost.region}.run and everything after it"
                )
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
        spec = await asyncio.to_thread(SubtaskSpec.load, self.folder, attempt)
        before = lost.manifest.results if lost.manifest is not None else {}
        others = {name: result for name, result in before.items() if name not in lost.results}

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
            same_since=None if lost.manifest is None else lost.manifest.same_since,
        )
        if lost.manifest is not None:
            _check_same(lost, lost.manifest, manifest)
        await asyncio.to_thread(write_manifest, self.folder, manifest)
        again = sum(manifest.results[name].bytes for name in lost.results or manifest.results)
        await written.execution.release()
        log.warning("recomputed: %s, %s in %.1f s", attempt, format_bytes(again), time.monotonic() - started)
        return again


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
