"""Dividing measured inputs among subtasks, the newest rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.input_division import Consumed, MeasuredInput, divide_all_to_all, divide_inputs, divide_pointwise
from airflow_abs.core.parallelism import Bounds
from airflow_abs.core.ranges import IndexRange
from airflow_abs.core.skewed_join import SkewOptions

ALL, POINT = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE


def measured(
    rows: list[list[int]], pattern: DistributionPattern = ALL, *, intra: bool = True, inter: bool = True, **more: bool
) -> MeasuredInput:
    return MeasuredInput(pattern, rows, intra_correlated=intra, inter_correlated=inter, **more)  # type: ignore[arg-type]


def cells(consumed: Consumed) -> list[tuple[int, int]]:
    return [(i, j) for blocks in consumed for block in blocks for i in block.partitions for j in block.subpartitions]


def test_co_partitioned_inputs_are_cut_alike() -> None:
    division = divide_inputs([measured([[10, 10, 10, 10]]), measured([[5, 5, 5, 5]])], Bounds(1, 8), 30)
    assert division.parallelism == 2
    assert division.consumed[0] == division.consumed[1]
    assert division.reason == "60 B at a target of 30 B -> 2 subtasks"
    assert division.to_json()["consumed"][0][1] == [
        {"partitions": {"start": 0, "stop": 1}, "subpartitions": {"start": 2, "stop": 4}}
    ]


def test_a_preset_parallelism_replaces_the_bounds() -> None:
    division = divide_inputs([measured([[10, 10, 10, 10]])], Bounds(1, 2), 30, preset=4)
    assert division.parallelism == 4


def test_too_few_subpartitions_to_cut_by_bytes_are_an_error_by_count_too() -> None:
    with pytest.raises(InvalidValueError, match="at most one consumer per subpartition, found 4 for 2"):
        divide_inputs([measured([[10, 10]])], Bounds(1, 2), 30, preset=4)


def test_without_a_legal_cut_by_bytes_correlated_inputs_are_cut_by_count() -> None:
    consumed = divide_all_to_all({0: measured([[1, 9], [1, 9]])}, 2, Bounds(3, 3), 5, SkewOptions())
    assert [[block.subpartitions for block in blocks] for blocks in consumed[0]] == [
        [IndexRange(0, 1)],
        [IndexRange(1, 2)],
    ]


def test_an_uncorrelated_input_is_cut_into_cells_for_the_parallelism_of_the_others() -> None:
    joined, free = measured([[10, 10, 10, 10]]), measured([[1, 1], [1, 1]], intra=False, inter=False)
    division = divide_inputs([joined, free], Bounds(1, 8), 22)
    # 20 bytes of the volume fall to the join: 2 ranges; 4 cells of 1 byte are dealt out to the same 2 subtasks.
    assert division.parallelism == 2
    assert division.consumed[1] == (
        (Block(IndexRange(0, 1), IndexRange(0, 2)),),
        (Block(IndexRange(1, 2), IndexRange(0, 2)),),
    )


def test_an_intra_correlated_input_alone_is_cut_into_whole_subpartitions() -> None:
    division = divide_inputs([measured([[1, 1, 1], [1, 1, 1]], inter=False)], Bounds(2, 2), 3)
    assert division.consumed[0] == (
        (Block(IndexRange(0, 2), IndexRange(0, 2)),),
        (Block(IndexRange(0, 2), IndexRange(2, 3)),),
    )


def test_too_few_cells_fall_back_to_counting() -> None:
    # 3 subtasks for 2 cells: by count it cannot be done either.
    with pytest.raises(InvalidValueError, match="at most one consumer per subpartition"):
        divide_inputs([measured([[1, 1]], inter=False)], Bounds(3, 3), 3)


def test_only_broadcast_inputs_take_the_lower_bound_and_are_read_whole() -> None:
    several = measured([[1, 2], [3, 4]], broadcast=True)
    single = measured([[7, 0]], broadcast=True, single=True, inter=False)
    division = divide_inputs([several, single], Bounds(2, 8), 1)
    assert division.consumed[0] == ((Block(IndexRange(0, 2), IndexRange(0, 2)),),) * 2
    assert division.consumed[1] == ((Block(IndexRange(0, 1), IndexRange(0, 1)),),) * 2
    assert (several.bytes, single.bytes) == (10, 7)


def test_partitions_that_an_input_does_not_have_are_left_out() -> None:
    long, short = measured([[1], [1], [1]]), measured([[1]])
    division = divide_inputs([long, short], Bounds(1, 1), 10)
    assert cells(division.consumed[1]) == [(0, 0)]


def test_correlated_pointwise_partitions_stay_whole() -> None:
    entry = measured([[1, 1], [1], [1]], POINT, inter=False)
    assert cells(divide_inputs([entry], Bounds(3, 3), 1).consumed[0]) == [(0, 0), (0, 1), (1, 0), (2, 0)]
    with pytest.raises(InvalidValueError, match=r"partitions of correlated pointwise input 0: .* at least 4, found 3"):
        divide_inputs([entry], Bounds(4, 4), 1)


def test_a_pointwise_input_correlated_with_others_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="pointwise input 7 is correlated with others"):
        divide_pointwise({7: measured([[1]], POINT)}, 1, 1)


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="inputs: expected an integer of at least 1, found 0"):
        divide_inputs([], Bounds(1, 1), 1)
    with pytest.raises(InvalidValueError, match="partitions: expected an integer of at least 1, found 0"):
        measured([])
    with pytest.raises(
        InvalidValueError, match=r"subpartitions of an all-to-all input: .* partition 0 1, partition 1 2"
    ):
        measured([[1], [1, 2]])
    with pytest.raises(InvalidValueError, match=r"partition 0\[0\]: expected an integer of at least 0, found -1"):
        measured([[-1]])


ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 99), min_size=width, max_size=width), min_size=1, max_size=4)
)


@given(ROWS, ROWS, st.integers(1, 3), st.integers(1, 200))
def test_every_cell_of_every_partitioned_input_is_read_exactly_once(
    one: list[list[int]], other: list[list[int]], parallelism: int, volume: int
) -> None:
    inputs = [
        measured(one, POINT, intra=False, inter=False),
        measured(other, POINT, intra=False, inter=False),
        measured(other, intra=False, inter=False),
    ]
    if min(len(one) * len(one[0]), len(other) * len(other[0])) < parallelism:
        return
    division = divide_inputs(inputs, Bounds(1, 8), volume, preset=parallelism)
    for rows, consumed in zip((one, other, other), division.consumed, strict=True):
        assert sorted(cells(consumed)) == [(i, j) for i in range(len(rows)) for j in range(len(rows[0]))]


@given(ROWS, st.integers(1, 200))
def test_correlated_inputs_are_read_exactly_once_too(rows: list[list[int]], volume: int) -> None:
    division = divide_inputs([measured(rows)], Bounds(1, 3), volume)
    assert sorted(cells(division.consumed[0])) == [(i, j) for i in range(len(rows)) for j in range(len(rows[0]))]
