"""Whether what a source holds today is unlike what it held on earlier days."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from statistics import median

from airflow_abs.core.durability.prediction import JobHistory, RunHistory
from airflow_abs.core.wording import format_bytes

_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FEWEST = 3
"""Earlier days that say what is usual."""
_STRANGE = 3.0
"""Times the median, or of it."""


@dataclass(frozen=True, slots=True)
class UsualBytes:
    """What a source held on `days` earlier days, at least 3: of today's `weekday`, or any if that is ""."""

    median: int
    least: int
    most: int
    days: int
    weekday: str = ""

    def describe_strange(self, source: str, size: int) -> str | None:
        """One sentence if `size` is at least 3 times the median, or at most a third, and beyond every earlier day: what
        swings every week is not strange. None if the day is like others."""
        if self.least <= size <= self.most or self.median / _STRANGE < size < self.median * _STRANGE:
            return None
        span = f"{self.days} {self.weekday or 'day'}s: {format_bytes(self.least)} to {format_bytes(self.most)}"
        if not self.median:
            return f"{source} holds {format_bytes(size)} and is usually empty ({span})"
        times, usual = size / self.median, f"{self.weekday} median" if self.weekday else "median"
        return (
            f"{source} is {times:.{0 if times >= 10 else 1}f} times its {usual}: {format_bytes(size)} instead of "
            f"{format_bytes(self.median)} ({span})"
        )


def usual_bytes(history: JobHistory) -> Mapping[str, UsualBytes]:
    """By source what is usual on such a day; sources of fewer than three earlier days are left out.

    Only earlier days of the same weekday as today's count if there are three of them, else all.
    """
    weekday = weekday_of(history.today)
    found = {}
    for source in sorted({name for run in history.runs for name in run.source_bytes}):
        runs = [run for run in history.runs if source in run.source_bytes]
        alike = [run for run in runs if weekday is not None and weekday_of(run.date) == weekday]
        same = len(alike) >= _FEWEST
        if same or len(runs) >= _FEWEST:
            name = _DAYS[weekday] if same and weekday is not None else ""
            found[source] = _usual(source, alike if same else runs, name)
    return found


def _usual(source: str, runs: list[RunHistory], weekday: str) -> UsualBytes:
    sizes = [run.source_bytes[source] for run in runs]
    return UsualBytes(round(median(sizes)), min(sizes), max(sizes), len(sizes), weekday)


def weekday_of(day: str) -> int | None:
    """0 is Monday; None if it is no date in ISO form."""
    try:
        return date.fromisoformat(day[:10]).weekday()
    except ValueError:
        return None
