"""Bounds, and the rule that rounds to powers of two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.parallelism import (
    Bounds,
    Clamp,
    InputVolume,
    PowerOfTwoRule,
    normalise_bounds,
    power_of_two_from,
    power_of_two_up_to,
    round_to_power_of_two,
)
from airflow_abs.core.errors import InvalidValueError


def test_the_rule_is_exact_beyond_floating_point() -> None:
    assert PowerOfTwoRule(3).decide(InputVolume(3 * 10**17 + 1), Bounds(1, 2**60)).initial == 10**17 + 1


def test_every_bound_that_works_is_noted() -> None:
    rule = PowerOfTwoRule(1)
    assert rule.decide(InputVolume(64), Bounds(1, 8)).clamps == (Clamp("max_parallelism", 64, 8, 8),)
    assert rule.decide(InputVolume(0), Bounds(4, 8)).clamps == (Clamp("min_parallelism", 0, 4, 4),)


def test_power_of_two_sets_broadcast_bytes_aside_up_to_half() -> None:
    decision = PowerOfTwoRule(100).decide(InputVolume(600, broadcast=70), Bounds(1, 128))
    # 600 / (100 - 50) = 12: the midpoint between 8 and 16 goes up.
    assert (decision.initial, decision.parallelism) == (12, 16)
    assert decision.reason == "600 B at a target of 50 B is 12 (50 B of the target set aside for broadcast inputs)"


def test_bounds_of_the_first_generation_are_powers_of_two() -> None:
    assert normalise_bounds(Bounds(3, 100)) == Bounds(4, 64)
    with pytest.raises(InvalidValueError, match="min_parallelism 5 and max_parallelism 7: expected a power of two"):
        normalise_bounds(Bounds(5, 7))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounds(0, 1), "min_parallelism: expected an integer of at least 1, found 0"),
        (lambda: Bounds(1, True), "max_parallelism: expected an integer of at least 1, found True"),
        (lambda: Bounds(9, 8), "min_parallelism 9 exceeds max_parallelism 8; expected at most 8"),
        (lambda: InputVolume(-1), "partitioned bytes: expected an integer of at least 0, found -1"),
        (lambda: InputVolume(1, float("nan")), "broadcast bytes: expected an integer of at least 0, found nan"),
        (lambda: PowerOfTwoRule(-5), "target_bytes: expected an integer of at least 1, found -5"),
        (lambda: power_of_two_from(-1), "number: expected an integer of at least 0, found -1"),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()  # type: ignore[operator]


@given(st.integers(0, 10**6))
def test_the_closest_power_of_two_is_a_neighbour(number: int) -> None:
    down, up = power_of_two_up_to(number), power_of_two_from(number)
    assert down <= number <= up
    assert round_to_power_of_two(number) in (down, up)
    assert 0.75 * round_to_power_of_two(number) <= number or number == round_to_power_of_two(number)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 6), st.integers(0, 6))
def test_answers_lie_within_the_bounds(size: int, broadcast: int, low: int, more: int) -> None:
    bounds = Bounds(2**low, 2 ** (low + more))
    assert bounds.lower <= PowerOfTwoRule(100).decide(InputVolume(size, broadcast), bounds).parallelism <= bounds.upper
