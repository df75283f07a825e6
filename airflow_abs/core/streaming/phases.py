"""When changed resources lead to the next state: the phases of Flink 2.

    Cooldown -> Idling <-> Stabilizing -> Stabilized -> Transitioning
            \\------------^      \\-----------------------^

Nothing changes during the cooldown after the last rescale. A change with sufficient resources starts the
stabilization, which ends immediately with the desired resources, and after a timeout with sufficient ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from airflow_abs.core.checks import check_number
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.timers import StartTimer, Timer


class Phase(StrEnum):
    """Phase of waiting for a good moment."""

    COOLDOWN = "Cooldown"
    IDLING = "Idling"
    STABILIZING = "Stabilizing"
    STABILIZED = "Stabilized"
    TRANSITIONING = "Transitioning"


@dataclass(frozen=True, slots=True)
class Proceed:
    """Action: enter the next state."""

    reason: str


PhaseAction = StartTimer | Proceed


@dataclass(frozen=True, slots=True)
class RescaleOptions:
    """Durations, in the unit of the clock. `max_trigger_delay`: time limit for waiting for a trigger from outside."""

    cooldown: float = 30.0
    stabilization: float = 60.0
    max_trigger_delay: float = 0.0

    def __post_init__(self) -> None:
        check_number("cooldown", self.cooldown, at_least=0)
        check_number("stabilization", self.stabilization, at_least=0)
        check_number("max_trigger_delay", self.max_trigger_delay, at_least=0)


class RescalePhases:
    """Events in (a change, a trigger, a timer), actions out.

    Args:
        options: durations.
        now: time of the last rescale, or of the start.
        versions: source of unused numbers, shared by everything that shares timers.
    """

    def __init__(self, options: RescaleOptions, now: float, versions: Iterator[int] | None = None) -> None:
        self._options = options
        self._started_at = now
        self._versions = count(1) if versions is None else versions
        self._version = next(self._versions)
        self._first_change: float | None = None
        self._check_pending = False
        self.phase = Phase.COOLDOWN

    def start(self) -> list[PhaseAction]:
        """Begin the cooldown."""
        return [self._timer("cooldown", self._started_at + self._options.cooldown)]

    def on_change(self, now: float, resources: Resources) -> list[PhaseAction]:
        """Available or wanted resources have changed."""
        match self.phase:
            case Phase.COOLDOWN if resources is not Resources.INSUFFICIENT and self._first_change is None:
                self._first_change = now
            case Phase.IDLING if resources is not Resources.INSUFFICIENT:
                self._first_change = now
                return self._stabilize(now)
            case Phase.STABILIZING if not self._check_pending:
                return [self._check(now, now)]
        return []

    def on_trigger(self, resources: Resources) -> list[PhaseAction]:
        """A good moment, as seen from outside."""
        match self.phase:
            case Phase.STABILIZING if resources is Resources.DESIRED:
                return self._proceed("desired resources are there")
            case Phase.STABILIZED if resources is not Resources.INSUFFICIENT:
                return self._proceed("sufficient resources were stable")
            case Phase.STABILIZED:
                self._enter(Phase.IDLING)
                self._first_change = None
        return []

    def on_timer(self, timer: Timer, now: float, resources: Resources) -> list[PhaseAction]:
        """A timer is due; a timer of an earlier phase does nothing."""
        if timer.version != self._version:
            return []
        match timer.purpose:
            case "cooldown" if self._first_change is None:
                self._enter(Phase.IDLING)
                return []
            case "cooldown":
                return self._stabilize(now)
            case "stabilization":
                return self._stabilized(now)
        self._check_pending = False
        return self.on_trigger(resources)

    def _stabilize(self, now: float) -> list[PhaseAction]:
        self._enter(Phase.STABILIZING)
        first = now if self._first_change is None else self._first_change
        return [self._timer("stabilization", max(now, first + self._options.stabilization)), self._check(now, first)]

    def _stabilized(self, now: float) -> list[PhaseAction]:
        self._enter(Phase.STABILIZED)
        first = now if self._first_change is None else self._first_change
        return [self._check(now, first)]

    def _check(self, now: float, change: float) -> StartTimer:
        self._check_pending = True
        return self._timer("check", max(now, change + self._options.max_trigger_delay))

    def _proceed(self, reason: str) -> list[PhaseAction]:
        self._enter(Phase.TRANSITIONING)
        return [Proceed(reason)]

    def _enter(self, phase: Phase) -> None:
        self.phase = phase
        self._version = next(self._versions)
        self._check_pending = False

    def _timer(self, purpose: str, at: float) -> StartTimer:
        return StartTimer(Timer(purpose, self._version), at)
