"""A stream that falls behind is told once, one that only goes up and down never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.stream_life.lag import LagAlarm, LagFell, LagGrows

SECONDS = st.floats(0, 1e6, allow_nan=False)


def told(alarm: LagAlarm, lags: list[float], seconds: float = 10.0) -> list[LagGrows | LagFell]:
    return [change for lag in lags if (change := alarm.see(lag, seconds)) is not None]


def test_a_lag_that_grows_by_more_than_a_batch_is_told_once_with_its_numbers() -> None:
    # of 4 batches the later two lag 20 s more than the earlier two, by medians; a batch takes 10 s
    (grows,) = told(LagAlarm(4), [5, 15, 25, 35, 45, 55])
    assert grows == LagGrows(4, 5, 35)
    assert str(grows) == (
        "the lag grew over 4 batches, from 5.0 s to 35.0 s: its source is written faster than it is read"
    )


def test_it_is_over_when_the_lag_is_back_and_may_come_again() -> None:
    alarm = LagAlarm(4)
    growing = [5.0, 15, 25, 35]
    assert told(alarm, [*growing, 30, 20, 5]) == [LagGrows(4, 5, 35), LagFell(5)]
    assert str(LagFell(5)) == "the lag is back at 5.0 s"
    assert told(alarm, growing) == [LagGrows(4, 5, 35)]


def test_batches_of_which_nobody_knows_the_lag_are_passed_over() -> None:
    alarm = LagAlarm(2)
    assert [alarm.see(lag, 1.0) for lag in (None, 0.0, None, 5.0)] == [None, None, None, LagGrows(2, 0, 5)]


def test_two_batches_are_the_least() -> None:
    with pytest.raises(InvalidValueError, match="batches: expected an integer of at least 2, found 1"):
        LagAlarm(1)


@given(st.integers(2, 12), SECONDS, st.floats(0.001, 1e4), st.lists(SECONDS, max_size=50))
def test_a_lag_within_less_than_one_batch_is_never_alarming(
    batches: int, least: float, seconds: float, offsets: list[float]
) -> None:
    lags = [least + (offset % (seconds / 2)) for offset in offsets]
    assert told(LagAlarm(batches), lags, seconds) == []


@given(st.integers(2, 12), SECONDS, st.floats(0.001, 1e3), st.floats(1.01, 10))
def test_a_lag_that_grows_by_a_batch_with_every_batch_is_always_told(
    batches: int, first: float, seconds: float, faster: float
) -> None:
    lags = [first + number * seconds * faster for number in range(2 * batches)]
    (grows,) = told(LagAlarm(batches), lags, seconds)
    assert grows == LagGrows(batches, lags[0], lags[batches - 1])


@given(st.lists(SECONDS, max_size=100), st.floats(0.001, 100))
def test_it_comes_and_goes_in_turn_and_the_same_batches_tell_the_same(lags: list[float], seconds: float) -> None:
    changes = told(LagAlarm(4), lags, seconds)
    assert all(isinstance(change, LagFell) == bool(number % 2) for number, change in enumerate(changes))
    assert told(LagAlarm(4), lags, seconds) == changes
