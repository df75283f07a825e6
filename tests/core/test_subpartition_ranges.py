"""Count-based reading, and how many subpartitions must be written for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.ranges import IndexRange
from airflow_abs.core.subpartition_ranges import (
    all_to_all_blocks,
    broadcast_blocks,
    broadcast_range,
    consumer_range,
    count_subpartitions,
    pointwise_blocks,
    pointwise_partitions,
)

ALL, POINT = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE


def test_a_consumer_is_counted_modulo_the_number_of_consumers() -> None:
    assert consumer_range(5, 3, 10) == consumer_range(2, 3, 10) == IndexRange(6, 10)


def test_a_consumer_known_beforehand_has_its_own_subpartition() -> None:
    assert consumer_range(2, 3, -1, dynamic=False) == IndexRange(2, 3)


def test_more_consumers_than_subpartitions_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="at most one consumer per subpartition, found 4 for 3"):
        consumer_range(0, 4, 3)


def test_a_broadcast_result_is_read_whole() -> None:
    whole = Block(IndexRange(0, 2), IndexRange(0, 4))
    assert broadcast_blocks(2, 4, 3, all_subpartitions=True) == [whole] * 3
    with pytest.raises(InvalidValueError, match="expected a broadcast result to have 1 subpartition, found 2"):
        broadcast_range(2, all_subpartitions=False)


def test_pointwise_neighbours_share_a_partition() -> None:
    # 3 partitions, 7 consumers: 0 1 2 | 3 4 | 5 6.
    assert [span.start for span in pointwise_partitions(3, 7)] == [0, 0, 0, 1, 1, 2, 2]


def test_pointwise_counts_may_differ_by_partition() -> None:
    blocks = pointwise_blocks([2, 6], 4)
    assert [block.subpartitions for block in blocks] == [
        IndexRange(0, 1),
        IndexRange(1, 2),
        IndexRange(0, 3),
        IndexRange(3, 6),
    ]


@pytest.mark.parametrize(
    ("pattern", "consumers", "dynamic", "single", "expected"),
    [
        (ALL, None, True, False, [13, 13]),
        (ALL, 7, True, False, [7, 7]),
        (ALL, None, True, True, [1, 1]),
        (POINT, None, True, False, [7, 7]),
        (POINT, 7, False, False, [4, 3]),
        (ALL, 7, False, True, [7, 7]),  # a broadcast in a graph that is known gives each consumer its own copy
    ],
)
def test_a_producer_writes_a_subpartition_per_possible_consumer(
    pattern: DistributionPattern, consumers: int | None, dynamic: bool, single: bool, expected: list[int]
) -> None:
    assert count_subpartitions(pattern, 2, consumers, 13, dynamic=dynamic, single=single) == expected


@given(st.integers(1, 12), st.integers(1, 12), st.integers(12, 40))
def test_all_to_all_reads_every_cell_once(partitions: int, consumers: int, subpartitions: int) -> None:
    blocks = all_to_all_blocks(partitions, subpartitions, consumers)
    assert [j for block in blocks for j in block.subpartitions] == list(range(subpartitions))
    assert all(block.partitions == IndexRange(0, partitions) for block in blocks)


@given(st.integers(1, 12), st.integers(1, 30))
def test_pointwise_reads_every_cell_once(partitions: int, consumers: int) -> None:
    written = count_subpartitions(POINT, partitions, None, consumers)
    blocks = pointwise_blocks(written, consumers)
    cells = sorted((i, j) for block in blocks for i in block.partitions for j in block.subpartitions)
    assert cells == [(i, j) for i in range(partitions) for j in range(written[i])]
