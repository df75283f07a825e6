"""Blocks of a result, and merging them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.blocks import Block, DistributionPattern, merge_blocks, merge_ranges
from airflow_abs.core.ranges import IndexRange

PATTERNS = st.sampled_from(DistributionPattern)


def block(partitions: tuple[int, int], subpartitions: tuple[int, int]) -> Block:
    return Block(IndexRange(*partitions), IndexRange(*subpartitions))


def cells(blocks: list[Block] | tuple[Block, ...]) -> list[tuple[int, int]]:
    return [(i, j) for one in blocks for i in one.partitions for j in one.subpartitions]


def test_ranges_that_overlap_or_touch_are_joined() -> None:
    spans = [IndexRange(6, 8), IndexRange(0, 2), IndexRange(1, 3), IndexRange(3, 4)]
    assert merge_ranges(spans) == [IndexRange(0, 4), IndexRange(6, 8)]
    assert merge_ranges([]) == []


def test_bytes_of_a_block_are_summed_over_its_cells() -> None:
    assert block((0, 2), (1, 3)).bytes_in([[1, 2, 3], [10, 20, 30], [100, 200, 300]]) == 2 + 3 + 20 + 30


def test_all_to_all_joins_partitions_first_and_pointwise_subpartitions_first() -> None:
    # Cells (0,0) (0,1) (1,0): an L, cut along one side or the other.
    corner = [block((0, 1), (0, 1)), block((0, 1), (1, 2)), block((1, 2), (0, 1))]
    assert merge_blocks(corner, DistributionPattern.ALL_TO_ALL) == (block((0, 1), (1, 2)), block((0, 2), (0, 1)))
    assert merge_blocks(corner, DistributionPattern.POINTWISE) == (block((0, 1), (0, 2)), block((1, 2), (0, 1)))


@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20), PATTERNS)
def test_merging_is_the_inverse_of_splitting_into_cells(
    chosen: set[tuple[int, int]], pattern: DistributionPattern
) -> None:
    singles = [block((i, i + 1), (j, j + 1)) for i, j in chosen]
    merged = merge_blocks(singles, pattern)
    assert sorted(cells(merged)) == sorted(chosen)
    assert merge_blocks([*singles, *merged], pattern) == merged
