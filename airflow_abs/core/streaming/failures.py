"""Whether a failed streaming query is started again, and when.

A restart strategy decides by number and rate. Beside it stands what a strategy cannot see: a query that fails in the
same way on the same offsets again and again will not get past them, however seldom it fails; one that fails here and
there does. So does one whose source or storage is away: it waits at the same offsets for as long as that lasts.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.restart_backoff import RestartBackoff


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """Why a query ended.

    Args:
        message: the error's own words.
        restartable: whether the same query may succeed if it is started again; False for errors of the author's code.
        offsets: what it had before it when it failed, as its sources write it; "" if it does not say.
        batch: the number of the batch that failed; None if nobody knows.
        kind: what the same failure would be called again; "" if nobody knows.
        is_away: whether a source or a storage did not answer, which says nothing about the rows.
    """

    message: str
    restartable: bool = True
    offsets: str = ""
    batch: int | None = None
    kind: str = ""
    is_away: bool = False

    @property
    def place(self) -> str:
        """``batch 7``, with the offsets if they are known; "" if nothing is."""
        parts = [f"batch {self.batch}" if self.batch is not None else "", self.offsets]
        return " at ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Restart after `backoff` seconds, or, if that is None, give up; and why."""

    backoff: float | None
    reason: str


class FailureJudge:
    """Told of every failure of one query.

    Args:
        strategy: of restarts.
        same_offsets: that often it may fail on the same offsets in the same way.
    """

    def __init__(self, strategy: RestartBackoff, same_offsets: int = 3) -> None:
        self._strategy = strategy
        self._most = check_int("same_offsets", same_offsets, at_least=1)
        self._last = ("", "")
        self._in_a_row = 0

    def judge(self, failure: QueryFailure, now: float) -> Verdict:
        """What to do after a failure at `now` (seconds)."""
        if not failure.is_away:  # what is away between two failures of the same rows makes no difference to them
            this = (failure.place, failure.kind)
            self._in_a_row = self._in_a_row + 1 if this == self._last else 1
            self._last = this
        now_ms = round(now * 1000)
        self._strategy.notify_failure(now_ms)
        where = f" in {failure.place}" if failure.place else ""
        if not failure.restartable:
            return Verdict(None, f"failed{where}, and would again: {failure.message}")
        if failure.place and not failure.is_away and self._in_a_row >= self._most:
            times = f"{self._in_a_row} times in a row"
            return Verdict(None, f"failed {times}{where}, so a restart does not get past it: {failure.message}")
        if not self._strategy.can_restart(now_ms):
            return Verdict(None, f"failed{where}, and the restart strategy allows no more restarts: {failure.message}")
        return Verdict(self._strategy.backoff_ms(now_ms) / 1000, f"failed{where}: {failure.message}")
