"""Inputs laid out as sequences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.blocks import Block, DistributionPattern, merge_blocks
from airflow_abs.core.layouts import Cells, WholePartitions, WholeSubpartitions
from airflow_abs.core.ranges import IndexRange

ALL, POINT = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE


def single(partition: int, subpartition: int) -> Block:
    return Block(IndexRange(partition, partition + 1), IndexRange(subpartition, subpartition + 1))


def test_whole_subpartitions_span_all_partitions() -> None:
    layout = WholeSubpartitions([[1, 2, 3], [10, 20, 30]])
    assert layout.sizes == [11, 22, 33]
    assert layout.blocks_of(IndexRange(1, 3)) == [Block(IndexRange(0, 2), IndexRange(1, 3))]


def test_whole_partitions_may_differ_in_length() -> None:
    layout = WholePartitions([[1, 2], [3], [4]])
    assert layout.sizes == [3, 3, 4]
    assert merge_blocks(layout.blocks_of(IndexRange(0, 3)), POINT) == (
        Block(IndexRange(0, 1), IndexRange(0, 2)),
        Block(IndexRange(1, 3), IndexRange(0, 1)),
    )


def test_all_to_all_cells_are_cut_into_columns() -> None:
    layout = Cells([[1, 2, 3], [4, 5, 6]], ALL)
    assert layout.sizes == [1, 2, 3, 4, 5, 6]
    # Cell 2 of partition 0 and cell 0 of partition 1; then all but the first cell.
    assert layout.blocks_of(IndexRange(2, 4)) == [single(1, 0), single(0, 2)]
    assert layout.blocks_of(IndexRange(1, 6)) == [single(1, 0), Block(IndexRange(0, 2), IndexRange(1, 3))]
    # Within one partition no other column has a cell.
    assert layout.blocks_of(IndexRange(4, 5)) == [single(1, 1)]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.data())
def test_pointwise_cells_merge_as_if_each_were_a_block(lengths: list[int], data: st.DataObject) -> None:
    check_cells(lengths, POINT, data)


@given(st.integers(1, 5), st.integers(1, 5), st.data())
def test_all_to_all_cells_merge_as_if_each_were_a_block(partitions: int, width: int, data: st.DataObject) -> None:
    check_cells([width] * partitions, ALL, data)


def check_cells(lengths: list[int], pattern: DistributionPattern, data: st.DataObject) -> None:
    layout = Cells([[0] * length for length in lengths], pattern)
    places = [(i, j) for i, length in enumerate(lengths) for j in range(length)]
    assert len(layout.sizes) == len(places)
    start = data.draw(st.integers(0, len(places) - 1))
    stop = data.draw(st.integers(start + 1, len(places)))
    expected = merge_blocks([single(*place) for place in places[start:stop]], pattern)
    assert merge_blocks(layout.blocks_of(IndexRange(start, stop)), pattern) == expected
