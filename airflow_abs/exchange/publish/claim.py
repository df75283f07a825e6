"""The right to publish to a target on an object store: a lease that is renewed, and a number that fences.

The lease only keeps publishers out of each other's way. What makes a publication right is the log: every step of a
publisher is the next number of it, so a publisher that was taken over can write nothing that counts, whenever it wakes
up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Self

from airflow_abs.exchange.errors import ExchangeError, TargetBusyError
from airflow_abs.exchange.publish.commit_log import Claim, CommitLog, Garbage, LogRecord
from airflow_abs.exchange.publish.lock import conflict
from airflow_abs.exchange.publish.record import CommitRecord
from airflow_abs.exchange.storage.client_errors import storage_errors

LEASE_SECONDS = 600.0
STRAY_SECONDS = 86400.0
"""So long after a publisher gave up, a file that a request of its own still puts is looked for."""


class TargetClaim:
    """One publisher's claim on one target; a context manager. `record` is the state of the target that it acts on.

    A claim past its lease is taken over, and so is one of the same identity (a retry).
    """

    record: LogRecord

    def __init__(
        self,
        log: CommitLog,
        identity: str,
        token: str,
        target: str,
        *,
        now: Callable[[], float],
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._log = log
        self._identity = identity
        self._token = token
        self._target = target
        self._now = now
        self._lease_seconds = lease_seconds
        self._is_over = True

    def __enter__(self) -> Self:
        before = self._log.read()
        holder = before.claim
        if holder is not None and holder.identity != self._identity and holder.until >= self._now():
            raise conflict(self._target, holder.identity)
        self.record = before
        self._append(self._next(claim=Claim(self._identity, self._until()), garbage=self._with_strays(before)))
        self._is_over = False
        self._log.prune(self.record.number)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_over:
            return
        # if this fails, the lease ends it; what is under way already is more worth telling
        with contextlib.suppress(TargetBusyError, ExchangeError, *storage_errors()):
            self._append(self._next(claim=None, garbage=self._with_strays(self.record)))

    def check(self) -> None:
        """Check that no other publisher has taken it over.

        Raises:
            TargetBusyError: another publisher has.
        """
        if self._log.read().number != self.record.number:
            self._lose()

    @property
    def renewal_seconds(self) -> float:
        """How long it may be left alone."""
        return self._lease_seconds / 3

    def announce(self, puts: Iterable[str], garbage: Iterable[Garbage]) -> None:
        """Record which files will be written before any of them is, so that a successor knows what to delete.

        Raises:
            TargetBusyError: another publisher took it over.
        """
        self._append(self._next(claim=Claim(self._identity, self._until(), tuple(puts)), garbage=tuple(garbage)))

    def renew_if_due(self) -> None:
        """Start the lease again if a third of it is over.

        Raises:
            TargetBusyError: another publisher took it over.
        """
        claim = self.record.claim
        if claim is not None and claim.until - self._now() <= self._lease_seconds - self.renewal_seconds:
            self._append(self._next(claim=replace(claim, until=self._until())))

    def commit(self, commit: CommitRecord, garbage: Iterable[Garbage]) -> None:
        """From here on readers see the new output; the claim is over with it.

        Raises:
            TargetBusyError: another publisher took it over, and nothing was published.
        """
        record = self._next(commit=commit, claim=None, garbage=tuple(garbage))
        if not self._log.append(record) and not self._log.contains(record):
            self._lose()
        self.record = record
        self._is_over = True

    def strays(self, names: Iterable[str]) -> tuple[Garbage, ...]:
        """Files of ours that count for nothing."""
        return tuple(Garbage(name, "", self._now() + STRAY_SECONDS) for name in names)

    def _with_strays(self, record: LogRecord) -> tuple[Garbage, ...]:
        return (*record.garbage, *self.strays(record.claim.puts if record.claim else ()))

    def _next(self, **changes: object) -> LogRecord:
        writers = (self._token, *self.record.writers)
        return replace(self.record, number=self.record.number + 1, writers=writers, **changes)  # type: ignore[arg-type]

    def _append(self, record: LogRecord) -> None:
        if not self._log.append(record):
            self._lose()
        self.record = record

    def _lose(self) -> None:
        self._is_over = True
        holder = self._log.read().claim
        raise conflict(self._target, holder.identity if holder else "")

    def _until(self) -> float:
        return self._now() + self._lease_seconds
