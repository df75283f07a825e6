"""Splitting skewed subpartitions of inputs whose keys must meet."""

from __future__ import annotations

import pytest

from airflow_abs.core.blocks import DistributionPattern
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.input_division import MeasuredInput
from airflow_abs.core.skewed_join import SkewOptions
from airflow_abs.core.skewed_slices import aggregate_inputs, combine, slice_correlated_inputs

SKEW = SkewOptions(factor=2, threshold_bytes=10)


def joined(rows: list[list[int]], *, together: bool = False, type_number: int = 1) -> MeasuredInput:
    return MeasuredInput(
        DistributionPattern.ALL_TO_ALL, rows, intra_correlated=together, inter_correlated=True, type_number=type_number
    )


def test_a_skewed_subpartition_is_cut_below_the_target() -> None:
    # Subpartition 1 holds 60 of a median of 4: pieces stay below max(20, average of the others) = 20.
    left = aggregate_inputs([joined([[1, 10, 1]] * 2 + [[1, 20, 1]] * 2)], 20, SKEW)
    assert left.skew_threshold == 10
    assert [
        (piece.block.partitions.start, piece.block.partitions.stop, piece.bytes) for piece in left.slices_of(1)
    ] == [
        (0, 1, 10),
        (1, 2, 10),
        (2, 3, 20),
        (3, 4, 20),
    ]
    assert len(left.slices_of(0)) == 1


def test_rows_that_must_stay_together_are_not_cut() -> None:
    whole = aggregate_inputs([joined([[1, 90, 1]] * 2, together=True)], 20, SKEW)
    assert [piece.bytes for piece in whole.slices_of(1)] == [180]


def test_inputs_with_different_partitions_are_not_cut() -> None:
    whole = aggregate_inputs([joined([[1, 90, 1]] * 2), joined([[1, 90, 1]])], 20, SKEW)
    assert whole.partitions == 2
    assert [piece.bytes for piece in whole.slices_of(1)] == [270]


def test_inputs_of_one_type_are_added_up_by_partition() -> None:
    both = aggregate_inputs([joined([[1, 5, 1], [1, 50, 1]])] * 2, 20, SKEW)
    assert both.bytes_by_partition == ((2, 10, 2), (2, 100, 2))
    assert [piece.bytes for piece in both.slices_of(1)] == [10, 100]


def test_each_piece_meets_the_whole_other_side() -> None:
    columns = slice_correlated_inputs(
        [joined([[1], [2]], type_number=2), joined([[30], [30]], type_number=1)], 20, SkewOptions(0, 10)
    )
    assert [[piece.bytes for piece in column] for column in columns.values()] == [[30, 30], [3, 3]]
    assert list(columns) == [1, 2]
    assert columns[2][0] is columns[2][1]


def test_no_inputs_have_no_slices() -> None:
    assert slice_correlated_inputs([], 20, SKEW) == {}
    assert combine([]) == [()]
    assert combine(["AB", "12"]) == [("A", "1"), ("A", "2"), ("B", "1"), ("B", "2")]


def test_inputs_of_one_type_must_be_alike() -> None:
    with pytest.raises(InvalidValueError, match="inputs of type 1: expected all or none to be intra-correlated"):
        aggregate_inputs([joined([[1]]), joined([[1]], together=True)], 1, SKEW)
    with pytest.raises(InvalidValueError, match=r"subpartitions of inputs of type 1: .* found input 0 1, input 1 2"):
        aggregate_inputs([joined([[1]]), joined([[1, 2]])], 1, SKEW)
    with pytest.raises(InvalidValueError, match=r"inputs that are cut together: .* found type 1 1, type 2 2"):
        slice_correlated_inputs([joined([[1]]), joined([[1, 2]], type_number=2)], 1, SKEW)
