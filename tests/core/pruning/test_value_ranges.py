"""Which files may hold one of the values of a column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.pruning.value_ranges import Span, Value, ValueRanges, comparable

whole = st.integers(-50, 50)


def test_each_value_is_a_range_of_its_own_as_long_as_they_are_few() -> None:
    assert ValueRanges.covering([5, 1, 5, 3]) == ValueRanges(((1, 1), (3, 3), (5, 5)), 3)
    assert ValueRanges.covering([]) == ValueRanges((), 0)


def test_neighbours_share_a_range_if_values_are_many() -> None:
    assert ValueRanges.covering(range(10), most=3) == ValueRanges(((0, 2), (3, 5), (6, 9)), 10)
    assert ValueRanges.covering(["b", "a", "c"], most=1) == ValueRanges((("a", "c"),), 3)


def test_a_file_is_left_out_only_if_its_bounds_meet_no_value() -> None:
    days = ValueRanges.covering([10, 20])
    spans: list[Span | None] = [(1, 9), (1, 10), (11, 19), (20,), (21, 99), (), None]
    assert days.may_hold(spans) == [False, True, False, True, False, False, True]
    assert ValueRanges.covering([]).may_hold([(1, 2), None]) == [False, True]


@given(st.sets(whole), st.lists(st.lists(whole, max_size=4), max_size=8), st.integers(1, 6))
def test_no_file_with_a_value_is_ever_left_out(values: set[int], files: list[list[int]], most: int) -> None:
    ranges = ValueRanges.covering(values, most)
    spans = [(min(rows), max(rows)) if rows else () for rows in files]
    kept = ranges.may_hold(spans)
    assert all(keep for keep, rows in zip(kept, files, strict=True) if values & set(rows))
    assert len(ranges.ranges) == min(most, len(values))
    if len(values) <= most:  # one value for one range: what is kept holds it, or has bounds around it
        met = [any(low <= value <= high for value in values for low, high in [span or (1, 0)]) for span in spans]
        assert kept == met


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        ("north", "north"),
        (date(1970, 1, 3), 2),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC).replace(tzinfo=None), 1_000_000),
        (datetime(1970, 1, 1, 0, 0, 0, 5, UTC), 5),
        (Decimal("-1.50"), -150),
        (Decimal("-9" + 36 * "0" + "7.5"), -int("9" + 36 * "0" + "75")),
    ],
)
def test_values_become_whole_numbers_or_texts(value: object, expected: Value) -> None:
    assert comparable(value) == expected


@pytest.mark.parametrize("value", [True, 1.5, b"x", None])
def test_what_has_no_such_order_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="is not a date, time, integer, decimal or string"):
        comparable(value)
