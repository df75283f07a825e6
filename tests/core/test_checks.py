"""Checks at the door."""

from __future__ import annotations

import math
from http import HTTPStatus

import pytest

from airflow_abs.core.checks import check_int, check_number, check_rectangle, check_sizes
from airflow_abs.core.errors import AdaptiveSchedulerError, InvalidValueError


def test_legal_values_pass() -> None:
    assert check_int("n", 3, at_least=3, at_most=3) == 3
    assert check_number("x", 0.5, at_least=0, below=1) == 0.5
    assert check_number("x", -7) == -7
    check_sizes("sizes", [0, 2**60])
    check_sizes("sizes", [])
    check_sizes("sizes", [HTTPStatus.OK])  # an integer of a subclass
    check_rectangle("rows", [[1, 2], [3, 4]])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, r"n: expected an integer of at least 0 and of at most 9, found True \(bool\)"),
        (1.0, r"found 1.0 \(float\)"),
        ("1", r"found '1' \(str\)"),
        (None, r"found None \(NoneType\)"),
        (-1, "n: expected an integer of at least 0 and of at most 9, found -1"),
        (10, "found 10"),
    ],
)
def test_what_is_no_integer_within_bounds_is_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        check_int("n", value, at_least=0, at_most=9)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"x: expected a number of at least 0 and below 1, found nan \(float\)"),
        (False, r"found False \(bool\)"),
        ("0", r"found '0' \(str\)"),
        (-0.1, "x: expected a number of at least 0 and below 1, found -0.1"),
        (1, "found 1"),
    ],
)
def test_what_is_no_number_within_bounds_is_refused(value: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        check_number("x", value, at_least=0, below=1)


def test_the_place_of_a_wrong_size_is_named() -> None:
    with pytest.raises(InvalidValueError, match=r"orders\[1\]\[2\]: expected an integer of at least 0, found -4"):
        check_rectangle("orders", [[1, 2, 3], [1, 2, -4]])
    with pytest.raises(InvalidValueError, match=r"sizes\[1\]: .* found True \(bool\)"):
        check_sizes("sizes", [0, True])
    with pytest.raises(
        InvalidValueError, match=r"sizes\[1\]: expected .* of at most 1152921504606846976, found 10{30}$"
    ):
        check_sizes("sizes", [0, 10**30])


def test_our_errors_are_also_the_builtin_ones() -> None:
    with pytest.raises(ValueError, match="n: expected an integer, found 'a'") as caught:
        check_int("n", "a")
    assert isinstance(caught.value, AdaptiveSchedulerError)
