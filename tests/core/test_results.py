"""Bytes of results: recorded, added up, forgotten."""

from __future__ import annotations

import pytest

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.errors import InvalidStateError, InvalidValueError
from airflow_abs.core.ranges import IndexRange
from airflow_abs.core.result_types import ResultType
from airflow_abs.core.results import ResultBytes

ALL, POINT = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE


def test_totals_come_when_every_partition_is_known() -> None:
    result = ResultBytes(ALL, 2)
    result.record(1, [128, 256])
    assert not result.is_complete
    with pytest.raises(InvalidStateError, match="bytes of 1 of 2 partitions are not recorded yet, first of 0"):
        result.total_bytes()
    result.record(0, [32, 64])
    assert result.is_complete
    assert result.total_bytes() == 480
    assert result.bytes_by_subpartition() == (160, 320)
    assert result.bytes_in(Block(IndexRange(0, 2), IndexRange(0, 1))) == 160


def test_only_subpartition_0_of_a_broadcast_result_counts() -> None:
    result = ResultBytes(ALL, 2, single=True)
    result.record(0, [32, 32])
    result.record(1, [64, 64])
    assert result.total_bytes() == 96


def test_a_lost_partition_is_recorded_anew() -> None:
    result = ResultBytes(POINT, 2)
    result.record(0, [1])
    result.record(1, [2, 3])
    result.reset(0)
    result.reset(0)
    assert result.recorded_partitions == (1,)
    result.record(0, [7])
    assert result.total_bytes() == 12


def test_a_pointwise_reader_needs_its_own_partitions_only() -> None:
    block = Block(IndexRange(1, 2), IndexRange(0, 1))
    pointwise, all_to_all = ResultBytes(POINT, 2), ResultBytes(ALL, 2)
    for result in (pointwise, all_to_all):
        result.record(1, [5])
    assert pointwise.bytes_in(block) == 5
    with pytest.raises(InvalidStateError):
        all_to_all.bytes_in(block)


def test_what_does_not_fit_is_refused() -> None:
    result = ResultBytes(ALL, 2)
    result.record(0, [1, 2])
    result.record(0, [1])  # a new attempt, and no other partition to agree with
    with pytest.raises(InvalidValueError, match="partition 1: expected 1 subpartitions as the others have, found 2"):
        result.record(1, [1, 2])
    with pytest.raises(InvalidValueError, match=r"partition: expected an integer .* at most 1, found 2"):
        result.record(2, [1])
    with pytest.raises(InvalidValueError, match=r"partition 1\[0\]: expected an integer of at least 0, found -1"):
        result.record(1, [-1])
    with pytest.raises(InvalidValueError, match="partitions: expected an integer of at least 1, found 0"):
        ResultBytes(ALL, 0)


def test_result_types_follow_the_table() -> None:
    must = {kind for kind in ResultType if kind.must_be_pipelined}
    again = {kind for kind in ResultType if kind.is_reconsumable}
    kept = {kind for kind in ResultType if kind.survives_consumer_failure}
    assert must == {ResultType.PIPELINED, ResultType.PIPELINED_BOUNDED}
    assert again == {ResultType.BLOCKING, ResultType.BLOCKING_PERSISTENT, ResultType.HYBRID_FULL}
    assert kept == again | {ResultType.PIPELINED_APPROXIMATE}
