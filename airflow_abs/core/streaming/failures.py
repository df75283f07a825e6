"""Whether a failed streaming query is started again, and when.

A restart strategy decides by number and rate of failures. It cannot see that a query fails repeatedly in the same way
on the same offsets, which no restart gets past. A query whose source or storage is away also stays at the same offsets,
but gets past them once that is back.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.restart_backoff import RestartBackoff


@dataclass(frozen=True, slots=True)
class QueryFailure:
    """Why a query ended.

    Args:
        message: the error's text.
        restartable: whether the same query may succeed if it is started again; False for errors of the author's code.
        offsets: of the batch that failed, as its sources write them; "" if unknown.
        batch: the number of the batch that failed; None if unknown.
        kind: a name that the same failure gets each time; "" if unknown.
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
        """``batch 7``, with the offsets if they are known; "" if neither is."""
        parts = [f"batch {self.batch}" if self.batch is not None else "", self.offsets]
        return " at ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Restart after `backoff` seconds, or give up if it is None; and the reason."""

    backoff: float | None
    reason: str


class FailureJudge:
    """Decides after every failure of one query.

    Args:
        strategy: of restarts.
        same_offsets: failures in a row on the same offsets and of the same kind after which to give up.
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
        where = " before its first batch" if failure.place == "{}" else f" in {failure.place}" if failure.place else ""
        if not failure.restartable:
            return Verdict(None, f"failed{where}, and would fail again: {failure.message}")
        if failure.place and not failure.is_away and self._in_a_row >= self._most:
            times = f"{self._in_a_row} times in a row"
            return Verdict(None, f"failed {times}{where}, so restarting does not help: {failure.message}")
        if not self._strategy.can_restart(now_ms):
            return Verdict(None, f"failed{where}, and the restart strategy allows no more restarts: {failure.message}")
        return Verdict(self._strategy.backoff_ms(now_ms) / 1000, f"failed{where}: {failure.message}")
