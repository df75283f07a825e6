"""Waiting for resources before any work starts: two rules behind one protocol.

`PhasedWait` is Flink 2's, `DeadlineWait` that of 1.15. Both go on at once with the desired resources, with
sufficient ones after they have been stable for a while, and after the resource timeout with whatever is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Protocol

from airflow_abs.core.checks import check_number
from airflow_abs.core.slots.phases import PhaseAction, Proceed, RescaleOptions, RescalePhases, Resources
from airflow_abs.core.slots.timers import StartTimer, Timer

_TIMED_OUT = "the resource timeout has passed"


@dataclass(frozen=True, slots=True)
class WaitOptions:
    """Durations, in the unit of the clock; a negative `resource_timeout` never passes."""

    resource_timeout: float = 300.0
    stabilization: float = 10.0

    def __post_init__(self) -> None:
        check_number("resource_timeout", self.resource_timeout)
        check_number("stabilization", self.stabilization, at_least=0)


class ResourceWait(Protocol):
    """Events in, actions out; `Proceed` comes at most once."""

    def start(self) -> list[PhaseAction]:
        """Begin to wait."""

    def on_resources(self, now: float, resources: Resources) -> list[PhaseAction]:
        """Resources were looked at anew."""

    def on_timer(self, timer: Timer, now: float, resources: Resources) -> list[PhaseAction]:
        """A timer is due; one that was asked for by something else does nothing."""


class DeadlineWait:
    """Sufficient resources start a deadline, insufficient ones clear it."""

    def __init__(self, options: WaitOptions, now: float, versions: Iterator[int] | None = None) -> None:
        self._options = options
        self._started_at = now
        self._version = next(count(1) if versions is None else versions)
        self._deadline: float | None = None
        self._is_over = False

    def start(self) -> list[PhaseAction]:
        """Begin to wait."""
        return _resource_timeout(self._options, self._started_at, self._version)

    def on_resources(self, now: float, resources: Resources) -> list[PhaseAction]:
        """Resources were looked at anew."""
        match resources:
            case _ if self._is_over:
                return []
            case Resources.DESIRED:
                return self._proceed("desired resources are there")
            case Resources.INSUFFICIENT:
                self._deadline = None
                return []
        if self._deadline is None:
            self._deadline = now + self._options.stabilization
        if self._deadline <= now:
            return self._proceed("sufficient resources were stable")
        return [StartTimer(Timer("stabilization", self._version), self._deadline)]

    def on_timer(self, timer: Timer, now: float, resources: Resources) -> list[PhaseAction]:
        """A timer is due."""
        if timer.version != self._version or self._is_over:
            return []
        return self._proceed(_TIMED_OUT) if timer.purpose == "resources" else self.on_resources(now, resources)

    def _proceed(self, reason: str) -> list[PhaseAction]:
        self._is_over = True
        return [Proceed(reason)]


class PhasedWait:
    """The rescale phases without cooldown, every look at the resources being a trigger as well."""

    def __init__(self, options: WaitOptions, now: float, versions: Iterator[int] | None = None) -> None:
        self._options = options
        self._started_at = now
        versions = count(1) if versions is None else versions
        self._version = next(versions)
        self._phases = RescalePhases(RescaleOptions(0, options.stabilization, 0), now, versions)
        self._is_over = False

    def start(self) -> list[PhaseAction]:
        """Begin to wait."""
        return [*_resource_timeout(self._options, self._started_at, self._version), *self._phases.start()]

    def on_resources(self, now: float, resources: Resources) -> list[PhaseAction]:
        """Resources were looked at anew."""
        if self._is_over:
            return []
        return self._noted([*self._phases.on_change(now, resources), *self._phases.on_trigger(resources)])

    def on_timer(self, timer: Timer, now: float, resources: Resources) -> list[PhaseAction]:
        """A timer is due."""
        if self._is_over:
            return []
        if timer == Timer("resources", self._version):
            return self._noted([Proceed(_TIMED_OUT)])
        return self._noted(self._phases.on_timer(timer, now, resources))

    def _noted(self, actions: list[PhaseAction]) -> list[PhaseAction]:
        self._is_over = any(isinstance(action, Proceed) for action in actions)
        return actions


def _resource_timeout(options: WaitOptions, now: float, version: int) -> list[PhaseAction]:
    if options.resource_timeout < 0:
        return []
    return [StartTimer(Timer("resources", version), now + options.resource_timeout)]
