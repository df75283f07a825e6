"""When all slots were taken, so that ready subtasks had to wait."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from airflow_abs.core.timeline.critical_path import Kind, Phase

Interval = tuple[float, float]
"""Start and end, in seconds."""

WAITING = "waiting for a slot"


def find_full(operations: Iterable[Interval], slots: int) -> tuple[Interval, ...]:
    """When at least this many operations ran at once: intervals in order, none touching the next."""
    # At one moment ends come before starts: a subtask that follows at once fills the slot that was freed.
    events = sorted(event for start, end in operations for event in ((start, 1), (end, -1)))
    full: list[Interval] = []
    running, since = 0, 0.0
    for moment, change in events:
        if change > 0 and running == slots - 1:
            since = moment
        if change < 0 and running == slots and moment > since:
            if full and full[-1][1] == since:
                since = full.pop()[0]
            full.append((since, moment))
        running += change
    return tuple(full)


def split_wait(start: float, end: float, full: Sequence[Interval], kind: Kind, label: str) -> Iterator[Phase]:
    """A wait in phases: for a slot while all were taken, what `kind` and `label` say for the rest; nothing is empty."""
    moment = start
    position = bisect_right(full, start, key=lambda interval: interval[1])
    while moment < end and position < len(full) and full[position][0] < end:
        low, high = max(full[position][0], moment), min(full[position][1], end)
        if moment < low:
            yield Phase(kind, label, moment, low)
        yield Phase(Kind.SLOTS, WAITING, low, high)
        moment, position = high, position + 1
    if moment < end:
        yield Phase(kind, label, moment, end)
