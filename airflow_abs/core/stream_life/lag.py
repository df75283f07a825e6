"""When a stream that falls behind its source is worth an alarm: from the lags of its batches alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from airflow_abs.core.checks import check_int
from airflow_abs.core.wording import format_duration


@dataclass(frozen=True, slots=True)
class LagGrows:
    """Over this many batches the lag went from `first` to `last` seconds."""

    batches: int
    first: float
    last: float

    def __str__(self) -> str:
        grown = f"from {format_duration(self.first)} to {format_duration(self.last)}"
        return f"the lag grew over {self.batches} batches, {grown}: its source is written faster than it is read"


@dataclass(frozen=True, slots=True)
class LagFell:
    """It is back where it was before the alarm, in seconds."""

    lag: float

    def __str__(self) -> str:
        return f"the lag is back at {format_duration(self.lag)}"


class LagAlarm:
    """Told of every batch of one stream, in order.

    Lags go up and down: files come when they come, and batches differ. It is an alarm when of the last batches each of
    the later half lags more than every one of the earlier half, by at least the seconds that a batch takes (medians and
    mean). It is over when a batch lags no more than the first of those did.

    Args:
        batches: that are looked at.
    """

    def __init__(self, batches: int = 10) -> None:
        self._recent: deque[tuple[float, float]] = deque(maxlen=check_int("batches", batches, at_least=2))
        self._level: float | None = None

    def see(self, lag: float | None, seconds: float) -> LagGrows | LagFell | None:
        """What has changed with a batch of that lag, which took so many seconds; a batch of unknown lag is
        passed over."""
        if lag is None:
            return None
        self._recent.append((lag, seconds))
        if self._level is not None:
            if lag > self._level:
                return None
            self._level = None
            self._recent.clear()
            return LagFell(lag)
        if len(self._recent) < (self._recent.maxlen or 0) or not _grows(self._recent):
            return None
        self._level = self._recent[0][0]
        return LagGrows(len(self._recent), self._level, lag)


def _grows(recent: Sequence[tuple[float, float]]) -> bool:
    lags = [lag for lag, _ in recent]
    early, late = lags[: len(lags) // 2], lags[len(lags) // 2 :]
    return min(late) > max(early) and median(late) - median(early) >= fmean(seconds for _, seconds in recent)
