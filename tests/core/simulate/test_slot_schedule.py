"""When Spark tasks run on a number of slots."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.slot_schedule import RegionSpan, RegionWork, schedule


def test_three_equal_subtasks_on_two_slots_take_two_waves() -> None:
    work = RegionWork("a", (), 1.0, 0.0, [[4.0], [4.0], [4.0]])
    assert schedule([work], 2) == {"a": RegionSpan(0.0, 1.0, 9.0)}


def test_the_last_wave_is_ragged() -> None:
    # slot 0: 5 then 1, slot 1: 2, then 2 from second 2 on
    work = RegionWork("a", (), 0.0, 0.0, [[5.0], [2.0], [2.0], [1.0]])
    assert schedule([work], 2)["a"].end == 5.0


def test_subtasks_that_airflow_has_not_started_leave_slots_idle() -> None:
    work = RegionWork("a", (), 0.0, 3.0, [[1.0]] * 3)
    assert schedule([work], 8)["a"].end == 7.0


def test_a_region_waits_for_all_before_it() -> None:
    regions = [
        RegionWork("a", (), 0.0, 0.0, [[2.0, 2.0]]),
        RegionWork("b", (), 1.0, 0.0, [[5.0]]),
        RegionWork("c", ("a", "b"), 2.5, 0.0, [[1.0]]),
    ]
    spans = schedule(regions, 4)
    assert spans["c"] == RegionSpan(6.0, 8.5, 9.5)
    assert spans["c"].seconds == 1.0
    assert list(spans) == ["a", "b", "c"]


def test_regions_at_the_same_time_share_the_slots_first_come_first_served() -> None:
    spans = schedule([RegionWork("a", (), 0.0, 0.0, [[3.0]]), RegionWork("b", (), 1.0, 0.0, [[1.0]])], 1)
    assert (spans["a"].end, spans["b"].end) == (3.0, 4.0)


def test_no_slots_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="slots"):
        schedule([], 0)


@given(st.integers(1, 60), st.integers(1, 12), st.floats(0.1, 50.0))
def test_equal_subtasks_take_as_many_waves_as_subtasks_over_slots_rounded_up(
    subtasks: int, slots: int, seconds: float
) -> None:
    end = schedule([RegionWork("a", (), 0.0, 0.0, [[seconds]] * subtasks)], slots)["a"].end
    assert end == pytest.approx(math.ceil(subtasks / slots) * seconds)


@given(st.lists(st.floats(0.1, 50.0), min_size=1, max_size=40), st.integers(1, 12))
def test_no_schedule_beats_the_work_or_is_worse_than_twice_that(durations: list[float], slots: int) -> None:
    """Graham's bound of list scheduling: at most (2 - 1/slots) times what any schedule needs."""
    end = schedule([RegionWork("a", (), 0.0, 0.0, [[each] for each in durations])], slots)["a"].end
    least = max(*durations, sum(durations) / slots)
    assert least <= end * 1.000001
    assert end <= (2 - 1 / slots) * least * 1.000001
