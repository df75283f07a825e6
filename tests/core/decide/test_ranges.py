"""Index ranges and the ways to cut a sequence into consecutive ones."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.ranges import (
    BytePacker,
    IndexRange,
    check_same_length,
    count_ranges_within,
    cut_by_bytes,
    split_by_count,
)
from airflow_abs.core.errors import InvalidValueError

SIZES = st.lists(st.integers(0, 1000), min_size=1, max_size=40)


def cuts(ranges: list[IndexRange]) -> list[tuple[int, int]]:
    return [(span.start, span.stop) for span in ranges]


def assert_covers(ranges: list[IndexRange], length: int) -> None:
    assert [index for span in ranges for index in span] == list(range(length))


def test_a_range_is_half_open() -> None:
    span = IndexRange(2, 5)
    assert list(span) == [2, 3, 4]
    assert len(span) == 3
    assert 4 in span
    assert 5 not in span
    assert "4" not in span
    assert str(span) == "[2, 5)"


@pytest.mark.parametrize(
    ("start", "stop", "found"), [(-1, 2, "-1"), (3, 3, "3"), (True, 2, "True"), (0, 10**30, str(10**30))]
)
def test_a_range_is_never_empty_nor_negative_nor_longer_than_memory(start: int, stop: int, found: str) -> None:
    with pytest.raises(InvalidValueError, match=f"IndexRange.* expected an integer of at least .*, found {found}"):
        IndexRange(start, stop)


def test_splitting_by_count_makes_lengths_differ_by_one_at_most() -> None:
    assert cuts(split_by_count(10, 4)) == [(0, 2), (2, 5), (5, 7), (7, 10)]


def test_more_parts_than_indexes_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="count: expected an integer of at least 1 and of at most 3, found 4"):
        split_by_count(3, 4)


def test_greedy_ranges_fill_up_to_the_limit() -> None:
    packer = BytePacker([5, 5, 5, 9, 1, 30, 0, 2])
    # [5 5] [5] [9 1] [30] [0 2]: 30 is above the limit and stands alone; nothing joins it, not even an empty one.
    assert packer.count(10) == 5
    assert packer.total == 57


def test_empty_subpartitions_need_no_range_of_their_own() -> None:
    assert count_ranges_within([0, 0, 900, 0, 0], 10) == 1
    assert count_ranges_within([0, 0, 0], 10) == 0
    assert cuts(cut_by_bytes([0, 7, 0, 0, 7, 0], 2)) == [(0, 4), (4, 6)]


def test_cutting_nothing_goes_by_count() -> None:
    assert cuts(cut_by_bytes([0, 0, 0, 0], 2)) == [(0, 2), (2, 4)]


def test_a_target_below_one_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="target_bytes: expected an integer of at least 1, found 0"):
        count_ranges_within([1], 0)


def test_lengths_that_differ_are_listed() -> None:
    assert check_same_length("columns", {}) == 0
    with pytest.raises(InvalidValueError, match="columns: expected the same number for all, found a 1, b 2"):
        check_same_length("columns", {"a": 1, "b": 2})


@given(SIZES, st.integers(1, 1000), st.integers(0, 1000))
def test_a_higher_limit_never_gives_more_ranges(sizes: list[int], limit: int, more: int) -> None:
    assert BytePacker(sizes).count(limit) >= BytePacker(sizes).count(limit + more)


@given(SIZES, st.data())
def test_cutting_gives_exactly_the_number_asked_for(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(sizes)))
    ranges = cut_by_bytes(sizes, count)
    assert_covers(ranges, len(sizes))
    assert len(ranges) == count


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.data())
def test_no_cut_has_a_smaller_largest_range(sizes: list[int], data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(sizes)))
    best = min(
        max(sum(sizes[a:b]) for a, b in zip((0, *inner), (*inner, len(sizes)), strict=True))
        for inner in combinations(range(1, len(sizes)), count - 1)
    )
    assert max(sum(sizes[span.start : span.stop]) for span in cut_by_bytes(sizes, count)) == best


@given(SIZES, st.data())
def test_a_cut_leaves_no_range_empty_if_there_is_data_for_all(sizes: list[int], data: st.DataObject) -> None:
    filled = sum(1 for size in sizes if size)
    if filled:
        count = data.draw(st.integers(1, filled))
        assert all(any(sizes[span.start : span.stop]) for span in cut_by_bytes(sizes, count))


def count_step_by_step(sizes: list[int], limit: int) -> int:
    """The greedy rule as it is told: each size in turn joins the open range or opens the next."""
    ranges, start = 1, 0
    for index in range(1, len(sizes)):
        if sum(sizes[start : index + 1]) > limit:
            ranges, start = ranges + 1, index
    return ranges


@given(SIZES, st.integers(-1, 3000))
def test_counting_by_search_is_counting_step_by_step(sizes: list[int], limit: int) -> None:
    assert BytePacker(sizes).count(limit) == count_step_by_step(sizes, limit)
