"""The phases before a rescale: a change, a trigger or a timer, and what they lead to."""

from __future__ import annotations

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.phases import Phase, Proceed, RescaleOptions, RescalePhases

DESIRED, SUFFICIENT, INSUFFICIENT = Resources.DESIRED, Resources.SUFFICIENT, Resources.INSUFFICIENT


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
