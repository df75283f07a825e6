"""Timers as values. A state machine asks for one; the owner of the clock hands it back when it is due.

A timer carries the version of the state that asked for it. When that state has been left, the timer does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush


@dataclass(frozen=True, slots=True)
class Timer:
    """What it is for, and the version of the state that asked."""

    purpose: str
    version: int


@dataclass(frozen=True, slots=True)
class StartTimer:
    """Action: hand `timer` back at `at` (on the clock that events are told with) or as soon after as possible."""

    timer: Timer
    at: float


@dataclass(slots=True)
class TimerQueue:
    """Pending timers in the order they are due; equal times keep the order in which they were asked for."""

    _pending: list[tuple[float, int, Timer]] = field(default_factory=list)
    _asked: int = 0

    def add(self, action: StartTimer) -> None:
        """Remember a timer."""
        self._asked += 1
        heappush(self._pending, (action.at, self._asked, action.timer))

    @property
    def next_at(self) -> float | None:
        """When the next timer is due; None if there is none."""
        return self._pending[0][0] if self._pending else None

    def pop_due(self, now: float) -> Timer | None:
        """Take out the next timer that is due (its very time included)."""
        return heappop(self._pending)[2] if self._pending and self._pending[0][0] <= now else None
