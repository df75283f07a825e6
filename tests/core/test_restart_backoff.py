"""Whether and when to restart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidStateError, InvalidValueError
from airflow_abs.core.restart_backoff import (
    ExponentialDelay,
    ExponentialDelayOptions,
    FailureRate,
    FixedDelay,
    NoRestart,
)


def exponential(**options: float | None) -> ExponentialDelay:
    return ExponentialDelay(ExponentialDelayOptions(**options), lambda low, high: 0)  # type: ignore[arg-type]


def test_fixed_delay_allows_so_many_restarts() -> None:
    strategy = FixedDelay(attempts=2, delay_ms=500)
    answers = []
    for _ in range(3):
        assert strategy.notify_failure(0)
        answers.append(strategy.can_restart(0))
    assert answers == [True, True, False]
    assert strategy.backoff_ms(0) == 500


def test_failure_rate_looks_at_one_interval() -> None:
    strategy = FailureRate(max_failures=1, interval_ms=100, delay_ms=7)
    assert strategy.notify_failure(0)
    assert strategy.can_restart(0)
    strategy.notify_failure(100)
    assert not strategy.can_restart(100)
    assert strategy.can_restart(101)
    assert strategy.backoff_ms(101) == 7


def test_no_restart_never_restarts() -> None:
    strategy = NoRestart()
    assert strategy.notify_failure(0)
    assert not strategy.can_restart(0)
    assert strategy.backoff_ms(0) == 0


def test_exponential_delay_grows_is_capped_and_starts_anew_after_a_quiet_time() -> None:
    strategy = exponential(initial_ms=4, max_ms=20, multiplier=2.3, reset_threshold_ms=100)
    now, waits = 0, []
    for _ in range(4):
        assert strategy.notify_failure(now)
        waits.append(strategy.backoff_ms(now))
        now += waits[-1] + 1
    assert waits == [4, 9, 20, 20]  # 4, 9.2, 21.16 and on, never above 20
    now += 99  # the last wait ended 100 ms ago
    strategy.notify_failure(now)
    assert strategy.backoff_ms(now) == 4
    assert strategy.backoff_ms(now + 9) == 0


def test_failures_during_a_wait_are_merged() -> None:
    strategy = exponential(initial_ms=10, max_ms=100, attempts_before_reset=1)
    assert [strategy.notify_failure(now) for now in (0, 5, 10, 11)] == [True, False, False, True]
    assert not strategy.can_restart(11)


def test_any_number_of_attempts_never_overflows() -> None:
    strategy = exponential(initial_ms=1, max_ms=5, multiplier=10.0, reset_threshold_ms=10**9)
    for attempt in range(400):
        strategy.notify_failure(attempt * 6)
    assert strategy.backoff_ms(399 * 6) == 5
    assert strategy.can_restart(0)


@pytest.mark.parametrize("multiplier", [10, 10.0, 1.5])
def test_a_row_of_a_thousand_failures_ends_at_the_longest_wait(multiplier: float) -> None:
    # 10**307 is still a float, 10**307 * 1000 * 0.1 is not; a whole number as multiplier never overflows by itself
    options = ExponentialDelayOptions(max_ms=60_000, multiplier=multiplier, reset_threshold_ms=10**9)
    backoff = ExponentialDelay(options, lambda low, high: high)
    now_ms = 0
    for _ in range(1_000):
        assert backoff.notify_failure(now_ms)
        now_ms += backoff.backoff_ms(now_ms) + 1
    assert backoff.backoff_ms(now_ms - 1 - 60_000) == 60_000


def test_asking_before_the_first_failure_is_an_error() -> None:
    with pytest.raises(InvalidStateError, match="backoff: expected a failure first, found none"):
        exponential().backoff_ms(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initial_ms": 0}, "initial_ms: expected an integer of at least 1, found 0"),
        ({"max_ms": 5, "initial_ms": 6}, "max_ms: expected an integer of at least 6, found 5"),
        ({"multiplier": float("nan")}, "multiplier: expected a number of at least 1, found nan"),
        ({"reset_threshold_ms": 0}, "reset_threshold_ms: expected an integer of at least 1, found 0"),
        ({"jitter": 1.5}, "jitter: expected a number from 0 to 1, found 1.5"),
        ({"jitter": True}, "jitter: expected a number of at least 0, found True"),
        ({"attempts_before_reset": 0}, "attempts_before_reset: expected an integer of at least 1, found 0"),
    ],
)
def test_wrong_options_are_named(options: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        exponential(**options)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 2**32))
def test_waits_stay_within_their_limits(gaps: list[int], seed: int) -> None:
    options = ExponentialDelayOptions(initial_ms=2, max_ms=30, multiplier=1.7, reset_threshold_ms=20, jitter=1)
    strategy, now = ExponentialDelay(options, random.Random(seed).randint), 0  # noqa: S311
    for gap in gaps:
        now += gap
        if strategy.notify_failure(now):
            assert 2 <= strategy.backoff_ms(now) <= 30
