"""Bounds, and rounding to powers of two."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.parallelism import (
    Bounds,
    normalise_bounds,
    power_of_two_from,
    power_of_two_up_to,
    round_to_power_of_two,
)
from airflow_abs.core.errors import InvalidValueError


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
