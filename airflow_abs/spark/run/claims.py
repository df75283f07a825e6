"""The claim on lost results: one reader recomputes a subtask's while the others wait for its new manifest.

    look: is there a new manifest?  --yes-->  nothing to do
       | no
    claim it (`exchange/records/recovery_claim.py`)  --it is held-->  wait, look again
       | it is ours
    stop what a holder that vanished left on Spark; recompute, keeping the lease; end the claim

How many readers there are, and in how many processes, is unknown: the claims in the exchange are all they share.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.recovery_claim import (
    LEASE_SECONDS,
    RecoveryClaim,
    claim_recovery,
    end_claim,
    find_claims,
    move_claim,
    renew_claim,
)
from airflow_abs.exchange.records.tries import last_attempt
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.errors import TransientSparkError
from airflow_abs.spark.run.attempt import SubtaskAttempt, interrupt_attempt
from airflow_abs.spark.run.inputs import LostResults
from airflow_abs.spark.run.rounds import number_to_start

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_WAIT_SECONDS = 3600.0


async def claim_lost(connection: Connection, folder: JobFolder, owner: str, lost: LostResults) -> RecoveryClaim | None:
    """The right to recompute what is lost; None once another process has done it, which this waits for.

    What a holder that vanished left running on Spark is stopped.

    Raises:
        TransientSparkError: the other one took too long.
        SparkOperationError, ExchangeError: Spark or the exchange does not answer.
    """
    started = time.monotonic()
    if lost.manifest is not None:
        attempt = lost.manifest.attempt
    else:
        attempt = await asyncio.to_thread(last_attempt, folder, lost.region, lost.index)
    waiting = False
    while time.monotonic() - started < _WAIT_SECONDS:
        if _is_replaced(folder, lost):
            return None
        claimed = await asyncio.to_thread(
            claim_recovery, folder, lost.region, lost.index,
            decision=lost.decision, owner=owner, lost_attempt=attempt, now=time.time(),
        )  # fmt: skip
        if claimed is not None and _is_replaced(folder, lost):  # between the two looks
            end_claim(folder, claimed.claim)
            return None
        if claimed is not None:
            await _stop_stale(connection, folder, lost, claimed.stale)
            return claimed.claim
        if not waiting:
            log.info("%s is being recomputed by another subtask; waiting for it", lost)
        waiting = True
        await asyncio.sleep(_POLL_SECONDS)
    raise TransientSparkError(
        f"{owner}: waited {_WAIT_SECONDS:g} s for another subtask to recompute {lost}; expected its manifest. "
        f"Its recovery-*.json in {folder.subtask_path(lost.region, lost.index)} says who; look at that log"
    )


async def interrupt_recoveries(connection: Connection, folder: JobFolder, owner: str) -> None:
    """Stop what a reader recomputes, and what is recomputed for that."""
    for claim in await asyncio.to_thread(find_claims, folder, owner):
        stale = SubtaskAttempt(claim.region, claim.index, claim.attempt, claim.decision)
        await interrupt_attempt(connection, folder, stale)
        await asyncio.to_thread(end_claim, folder, claim)


@dataclass(slots=True)
class ClaimLedger:
    """Of a recovery: it remembers in the claim, whose lease it keeps.

    The lease is renewed in another thread than the rest: each write of the claim has its turn, or a renewal that was
    under way would bring back a claim that is ended, and hold up the others until its lease is over.
    """

    folder: JobFolder
    claim: RecoveryClaim
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _is_over: bool = False

    def start(self, attempt: int, inputs: str) -> int:
        with self._turn:
            return self._start(attempt, inputs)

    def _start(self, attempt: int, inputs: str) -> int:
        number = number_to_start(attempt, inputs, stored=self.claim)
        if number == self.claim.attempt:
            self.claim = renew_claim(self.folder, replace(self.claim, inputs=inputs), time.time())
            return number
        moved = move_claim(self.folder, self.claim, number, inputs, time.time())
        if moved is None:
            raise TransientSparkError(
                f"{self.claim.owner}: lost its claim on {self.claim.region}[{self.claim.index}]: attempt {number} is "
                "another subtask's by now; expected the claim to last as long as the recovery. The next try looks again"
            )
        self.claim = moved
        return number

    def end(self, recomputed_bytes: int = 0) -> None:
        with self._turn:
            self._is_over = True
            end_claim(self.folder, self.claim, recomputed_bytes)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """While this lasts, no other process can claim the same."""

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
        with self._turn:
            if not self._is_over:
                self.claim = renew_claim(self.folder, self.claim, time.time())


def _is_replaced(folder: JobFolder, lost: LostResults) -> bool:
    try:
        manifest = read_manifest(folder, lost.region, lost.index, decision=lost.decision)
    except (MissingFileError, DamagedFileError):
        return False
    return lost.manifest is None or manifest.attempt != lost.manifest.attempt


async def _stop_stale(connection: Connection, folder: JobFolder, lost: LostResults, attempt: int | None) -> None:
    if attempt is not None:
        stale = SubtaskAttempt(lost.region, lost.index, attempt, lost.decision)
        await interrupt_attempt(connection, folder, stale)
