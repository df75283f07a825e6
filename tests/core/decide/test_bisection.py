"""Bisection over integers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.bisection import NO_LEGAL_VALUE, find_smallest_legal

BOUNDS = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted)


def test_without_a_legal_value_the_answer_says_so() -> None:
    assert find_smallest_legal(1, 5, lambda value: value > 5) == NO_LEGAL_VALUE


@given(BOUNDS, st.integers(-5, 105))
def test_the_smallest_legal_value_is_found(bounds: list[int], edge: int) -> None:
    expected = next((value for value in range(bounds[0], bounds[1] + 1) if value >= edge), NO_LEGAL_VALUE)
    assert find_smallest_legal(*bounds, lambda value: value >= edge) == expected
