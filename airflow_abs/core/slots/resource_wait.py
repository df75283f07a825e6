"""How long a run waits for resources before any of its work starts.

    start ──► waiting ──sufficient──► settling ──`stabilization` later──► over
                 ▲                       │
                 └──────insufficient─────┘

    desired resources, from either: over at once
    `resource_timeout` after the start, from either: over, with whatever is there

The rule is Flink's for its adaptive scheduler, as it was up to 1.19: a lapse while it settles starts over.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from airflow_abs.core.checks import check_number


class Resources(StrEnum):
    """What the free slots allow: all that is wanted, enough to work with, or less."""

    DESIRED = "desired"
    SUFFICIENT = "sufficient"
    INSUFFICIENT = "insufficient"


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Durations, in the unit of the clock; a negative `resource_timeout` never passes."""

    resource_timeout: float = 300.0
    stabilization: float = 10.0

    def __post_init__(self) -> None:
        check_number("resource_timeout", self.resource_timeout)
        check_number("stabilization", self.stabilization, at_least=0)


class ResourceWait:
    """One wait, from `now` on. Has no clock: look again whenever resources change, and at `next_look_at`."""

    def __init__(self, options: WaitOptions, now: float) -> None:
        self._stabilization = options.stabilization
        self._times_out_at = None if options.resource_timeout < 0 else now + options.resource_timeout
        self._stable_at: float | None = None

    @property
    def next_look_at(self) -> float | None:
        """When the wait ends if resources stay as they were at the last look; None if it then never does."""
        return min((at for at in (self._stable_at, self._times_out_at) if at is not None), default=None)

    def look(self, now: float, resources: Resources) -> str | None:
        """Why the wait is over, given what is there now; None if it continues."""
        if resources is Resources.DESIRED:
            return "desired resources are there"
        if resources is Resources.INSUFFICIENT:
            self._stable_at = None
        elif self._stable_at is None:
            self._stable_at = now + self._stabilization
        if self._stable_at is not None and self._stable_at <= now:
            return "sufficient resources were stable"
        if self._times_out_at is not None and self._times_out_at <= now:
            return "the resource timeout has passed"
        return None
