"""Waiting for resources, and for a good moment to rescale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.phases import Phase, PhaseAction, Proceed, RescaleOptions, RescalePhases, Resources
from airflow_abs.core.slots.resource_wait import DeadlineWait, PhasedWait, ResourceWait, WaitOptions
from airflow_abs.core.slots.timers import StartTimer, Timer, TimerQueue

DESIRED, SUFFICIENT, INSUFFICIENT = Resources.DESIRED, Resources.SUFFICIENT, Resources.INSUFFICIENT
WAITS = [DeadlineWait, PhasedWait]


class Clock:
    """Runs a wait: keeps time, resources and timers; notes when the wait was over."""

    def __init__(self, wait: ResourceWait) -> None:
        self.wait, self.now, self.resources = wait, 0.0, INSUFFICIENT
        self.timers = TimerQueue()
        self.over: list[tuple[float, str]] = []
        self.take(wait.start())

    def take(self, actions: list[PhaseAction]) -> None:
        for action in actions:
            if isinstance(action, StartTimer):
                self.timers.add(action)
            else:
                self.over.append((self.now, action.reason))

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while timer := self.timers.pop_due(self.now):
            self.take(self.wait.on_timer(timer, self.now, self.resources))

    def set(self, resources: Resources) -> None:
        self.resources = resources
        self.take(self.wait.on_resources(self.now, resources))
        self.advance(0)


@pytest.fixture(params=WAITS)
def clock(request: pytest.FixtureRequest) -> Clock:
    return Clock(request.param(WaitOptions(resource_timeout=300, stabilization=10), 0))


def test_desired_resources_end_the_wait_at_once(clock: Clock) -> None:
    clock.advance(5)
    clock.set(DESIRED)
    assert clock.over == [(5, "desired resources are there")]
    clock.set(DESIRED)
    clock.advance(1000)
    assert len(clock.over) == 1


def test_sufficient_resources_end_it_when_they_were_stable(clock: Clock) -> None:
    clock.set(SUFFICIENT)
    clock.advance(9)
    clock.set(SUFFICIENT)
    assert clock.over == []
    clock.advance(1)
    assert clock.over == [(10, "sufficient resources were stable")]


def test_sufficient_resources_without_stabilization_end_it_at_once() -> None:
    for make in WAITS:
        clock = Clock(make(WaitOptions(300, 0), 0))
        clock.advance(1)
        clock.set(SUFFICIENT)
        assert [at for at, _ in clock.over] == [1]


def test_the_resource_timeout_ends_it_anyway(clock: Clock) -> None:
    clock.advance(300)
    assert clock.over == [(300, "the resource timeout has passed")]


def test_a_negative_timeout_never_passes() -> None:
    for make in WAITS:
        clock = Clock(make(WaitOptions(-1, 10), 0))
        clock.advance(10**9)
        assert clock.over == []


def test_insufficient_resources_clear_the_deadline() -> None:
    clock = Clock(DeadlineWait(WaitOptions(300, 10), 0))
    clock.set(SUFFICIENT)
    clock.advance(5)
    clock.set(INSUFFICIENT)
    clock.advance(4)
    clock.set(SUFFICIENT)
    clock.advance(9)
    assert clock.over == []
    clock.advance(1)
    assert [at for at, _ in clock.over] == [19]


def test_a_timer_of_something_else_does_nothing() -> None:
    for make in WAITS:
        wait = make(WaitOptions(300, 10), 0)
        wait.start()
        assert wait.on_timer(Timer("resources", 99), 300, DESIRED) == []


def test_phases_move_on_with_sufficient_resources_only_when_stable() -> None:
    phases = RescalePhases(RescaleOptions(cooldown=10, stabilization=20, max_trigger_delay=100), 0)
    (cooldown,) = phases.start()
    assert phases.on_trigger(DESIRED) == []
    phases.on_timer(cooldown.timer, 10, SUFFICIENT)  # type: ignore[union-attr]
    assert phases.phase is Phase.IDLING
    assert phases.on_change(11, INSUFFICIENT) == []
    stabilization, check = phases.on_change(12, SUFFICIENT)
    assert (stabilization.at, check.at) == (32, 112)  # type: ignore[union-attr]
    assert phases.on_change(15, SUFFICIENT) == []  # one check is pending already
    assert phases.on_trigger(SUFFICIENT) == []
    phases.on_timer(stabilization.timer, 32, SUFFICIENT)  # type: ignore[union-attr]
    assert phases.phase is Phase.STABILIZED
    assert phases.on_timer(check.timer, 112, SUFFICIENT) == []  # type: ignore[union-attr]
    phases.on_trigger(INSUFFICIENT)
    assert phases.phase is Phase.IDLING
    phases.on_change(120, SUFFICIENT)
    assert phases.on_trigger(DESIRED) == [Proceed("desired resources are there")]
    assert phases.phase is Phase.TRANSITIONING


def test_a_check_that_failed_is_asked_for_again_by_the_next_change() -> None:
    phases = RescalePhases(RescaleOptions(0, 100, 10), 0)
    (cooldown,) = phases.start()
    phases.on_timer(cooldown.timer, 0, SUFFICIENT)  # type: ignore[union-attr]
    _, check = phases.on_change(0, SUFFICIENT)
    assert phases.on_timer(check.timer, 10, SUFFICIENT) == []  # type: ignore[union-attr]
    (again,) = phases.on_change(12, DESIRED)
    assert again.at == 22  # type: ignore[union-attr]
    assert phases.on_timer(again.timer, 22, DESIRED) == [Proceed("desired resources are there")]  # type: ignore[union-attr]


def test_durations_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="cooldown: expected a number of at least 0, found -1"):
        RescaleOptions(cooldown=-1)
    with pytest.raises(InvalidValueError, match="stabilization: expected a number of at least 0, found nan"):
        RescaleOptions(stabilization=float("nan"))
    with pytest.raises(InvalidValueError, match="max_trigger_delay: expected a number of at least 0, found True"):
        RescaleOptions(max_trigger_delay=True)
    with pytest.raises(InvalidValueError, match="resource_timeout: expected a number, found nan"):
        WaitOptions(resource_timeout=float("nan"))
    with pytest.raises(InvalidValueError, match="stabilization: expected a number of at least 0, found -1"):
        WaitOptions(stabilization=-1)


STEPS = st.lists(st.one_of(st.sampled_from(Resources), st.integers(0, 20)), max_size=30)


@given(st.sampled_from(WAITS), STEPS)
def test_a_wait_ends_once_at_most_and_by_the_timeout(make: type[ResourceWait], steps: list[Resources | int]) -> None:
    clock = Clock(make(WaitOptions(resource_timeout=60, stabilization=7), 0))  # type: ignore[call-arg]
    for step in steps:
        if isinstance(step, Resources):
            clock.set(step)
        else:
            clock.advance(step)
        assert len(clock.over) <= 1
        assert clock.over or clock.now < 60
