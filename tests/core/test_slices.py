"""Cutting slices into one range per subtask."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.blocks import Block
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.parallelism import Bounds
from airflow_abs.core.ranges import BytePacker, IndexRange
from airflow_abs.core.slices import RepeatedSlicePacker, Slice, cut_slices, share_of_volume

CELL = Block(IndexRange(0, 1), IndexRange(0, 1))


def column(*sizes: int) -> list[Slice]:
    return [Slice(CELL, size) for size in sizes]


def cuts(ranges: list[IndexRange] | None) -> list[tuple[int, int]] | None:
    return ranges and [(span.start, span.stop) for span in ranges]


def test_a_slice_that_the_open_range_holds_costs_nothing() -> None:
    whole = Slice(CELL, 50)
    halves = column(10, 10, 10)
    # 50 + 10, then 10, then 10: all in 80. With 75 the third position opens a range and pays for the whole again.
    assert cuts(RepeatedSlicePacker([halves, [whole] * 3]).pack(80)) == [(0, 3)]
    assert RepeatedSlicePacker([halves, [whole] * 3]).count(75) == 2
    assert cuts(RepeatedSlicePacker([halves, [whole] * 3]).pack(75)) == [(0, 2), (2, 3)]


def test_a_new_range_pays_for_its_first_position_in_full() -> None:
    whole = Slice(CELL, 50)
    ranges = RepeatedSlicePacker([column(40, 40, 5), [whole] * 3]).pack(90)
    # 90 | 40 + 50 = 90 | 5 + 50.
    assert cuts(ranges) == [(0, 1), (1, 2), (2, 3)]


def test_too_few_ranges_are_made_more_with_the_most_even_limit() -> None:
    sizes = column(10, 15, 13, 12, 1, 10, 8, 20, 12, 17)
    assert cuts(cut_slices([sizes], Bounds(4, 10), 1000)) == [(0, 2), (2, 6), (6, 8), (8, 10)]


def test_too_many_ranges_are_made_fewer() -> None:
    sizes = column(10, 15, 13, 12, 1, 10, 8, 20, 12, 17)
    assert cuts(cut_slices([sizes], Bounds(1, 2), 10)) == [(0, 6), (6, 10)]


def test_without_a_legal_limit_positions_are_counted() -> None:
    assert cuts(cut_slices([column(0, 0, 0, 0)], Bounds(2, 3), 60)) == [(0, 1), (1, 2), (2, 4)]


def test_fewer_positions_than_subtasks_have_no_answer() -> None:
    assert cut_slices([column(1, 2)], Bounds(3, 3), 60) is None


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"expected columns of 2 slices, found \[2, 1\]"):
        cut_slices([column(1, 2), column(1)], Bounds(1, 1), 1)


def test_the_share_of_no_bytes_is_nothing() -> None:
    assert share_of_volume(0, 0, 100) == 0
    assert share_of_volume(1, 3, 100) == 33


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=20),
    st.booleans(),
    st.integers(1, 5),
    st.integers(0, 5),
    st.integers(0, 120),
)
def test_ranges_cover_all_positions_within_the_bounds(
    sizes: list[int], shared: bool, lower: int, more: int, volume: int
) -> None:
    bounds = Bounds(lower, lower + more)
    columns = [column(*sizes), [Slice(CELL, 7)] * len(sizes)] if shared else [column(*sizes)]
    ranges = cut_slices(columns, bounds, volume)
    if ranges is None:
        assert len(sizes) < lower
    else:
        assert [index for span in ranges for index in span] == list(range(len(sizes)))
        assert bounds.lower <= len(ranges) <= bounds.upper


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20), st.integers(-1, 300))
def test_without_repetition_both_packers_agree(sizes: list[int], limit: int) -> None:
    assert RepeatedSlicePacker([column(*sizes)]).pack(limit) == BytePacker(sizes).pack(limit)
