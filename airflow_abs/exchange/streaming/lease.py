"""Who runs a query on a checkpoint: one at a time.

    <checkpoint>/_airflow_abs/lease/00000007

A lease is renewed while its holder lives. It is taken over when it is over, when it was given back, or by its own
holder in another process (a triggerer after another one's end). Every step is the next number of a log, so of two who
want it one gets it, and the former holder learns it at its next renewal, however long it was paused. Until then
its query may still run: the next holder stops that before it starts its own, and Spark's own log of batches takes each
batch from one of them only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from airflow_abs.exchange.errors import CheckpointHeldError, LeaseLostError
from airflow_abs.exchange.records.reading import Count, Seconds, as_record
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.numbered_log import NumberedLog
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json

LEASE_SECONDS = 60.0
_TRIES = 5
_FOLDER = "_airflow_abs/lease"


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a checkpoint.

    Args:
        owner: names the task instance, the same in every process that supervises it.
        token: names the process.
        session_id: of the Spark session in which a query may run; "" if there is none.
        server: address of the Spark server of that session.
        query: name of the query that it supervises: another one each time that the stream was compiled.
        until: end of the lease in epoch seconds; 0 once it was given back.
        slots: for which the query in that session was started; 0 if unknown.
    """

    owner: str
    token: str
    session_id: str = ""
    server: str = ""
    query: str = ""
    until: Seconds = 0.0
    slots: Count = 0


def read_holder(checkpoint: ExchangePath) -> Holder | None:
    """Who holds a checkpoint, or did last; None if there was never one.

    Raises:
        ExchangeError: see `NumberedLog.read`.
    """
    return _read(NumberedLog(locate(checkpoint / _FOLDER), f"checkpoint {checkpoint}"))[1]


def _read(log: NumberedLog) -> tuple[int, Holder | None]:
    found = log.read()
    if found is None:
        return 0, None
    number, content = found
    where = str(log.place(number))
    return number, as_record(
        decode_json(content, where=where), Holder, where=where, required=("session_id", "server", "until")
    )


class CheckpointLease:
    """One process' hold on one checkpoint.

    Args:
        checkpoint: its folder.
        holder: who asks.
        now: the time in epoch seconds.
        seconds: for which it holds without being renewed.
    """

    def __init__(
        self, checkpoint: ExchangePath, holder: Holder, now: Callable[[], float], seconds: float = LEASE_SECONDS
    ) -> None:
        self.checkpoint = checkpoint
        self._name = f"checkpoint {checkpoint}"
        self._log = NumberedLog(locate(checkpoint / _FOLDER), self._name)
        self._holder = holder
        self._now = now
        self._seconds = seconds
        self._number = 0

    @property
    def holder(self) -> Holder:
        """Who asks, with the last session in which a query of this lease may run."""
        return self._holder

    @property
    def seconds(self) -> float:
        """For how long it holds without being renewed."""
        return self._seconds

    @property
    def renewal_seconds(self) -> float:
        """How long it may be left alone."""
        return self._seconds / 3

    def take(self) -> Holder | None:
        """Become the holder; the one before, if its query may still run.

        Its session stays named as the one in which a query may run until `begin_session` names another.

        Raises:
            CheckpointHeldError: another process holds it.
            ExchangeError: see `NumberedLog.read`.
        """
        number, before = _read(self._log)
        if before is not None and before.owner != self._holder.owner and before.until >= self._now():
            raise self._held(before)
        left = before if before is not None and before.until > 0 else None
        if not self._follow(number, left):
            raise self._held(_read(self._log)[1])
        return left

    def take_over(self) -> Holder | None:
        """Become the holder in place of another process that supervises this very query; None if no process does.

        Raises:
            CheckpointHeldError: others came before us each time.
        """
        mine = self._holder
        for _ in range(_TRIES):
            number, before = _read(self._log)
            if before is None or before.until == 0 or (before.owner, before.query) != (mine.owner, mine.query):
                return None
            if self._follow(number, before):
                return before
        raise self._held(before)

    def _follow(self, number: int, before: Holder | None) -> bool:
        self._number = number
        if before is not None:
            self._holder = replace(self._holder, session_id=before.session_id, server=before.server, slots=before.slots)
        return self._append(self._seconds)

    def begin_session(self, session_id: str, server: str, slots: int = 0) -> None:
        """From here on a query may run in this session, with this many slots, and in no other.

        Raises:
            CheckpointHeldError, LeaseLostError: see `renew`.
        """
        self._holder = replace(self._holder, session_id=session_id, server=server, slots=slots)
        self.renew()

    def renew(self) -> None:
        """Hold it for longer.

        Raises:
            CheckpointHeldError: another process has it.
            LeaseLostError: another process of the same owner has it.
        """
        if self._append(self._seconds):
            return
        other = _read(self._log)[1]
        if other is None or other.owner != self._holder.owner:
            raise self._held(other)
        raise LeaseLostError(f"{self._name}: another process of {other.owner} supervises its query now; this one stops")

    def give_back(self) -> None:
        """Nothing runs on it any more; no effect if another process already has it."""
        self._append(None)

    def _append(self, seconds: float | None) -> bool:
        until = 0.0 if seconds is None else self._now() + seconds
        record = encode_json(asdict(replace(self._holder, until=until)))
        if not self._log.append(self._number + 1, record):
            return False
        self._number += 1
        self._log.prune(self._number)
        return True

    def _held(self, other: Holder | None) -> CheckpointHeldError:
        who = (
            f"{other.owner} runs a query on it (session {other.session_id})"
            if other
            else "another process runs a query on it"
        )
        return CheckpointHeldError(
            f"{self._name}: {who}; expected one query at a time. Stop the other one, or give this stream a checkpoint "
            "of its own; a killed one releases it after a minute"
        )
