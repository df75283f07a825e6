"""Which regions restart after a failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.failover import FailoverStrategy, ResultPartition
from airflow_abs.core.result_types import ResultType

BLOCKING, PIPELINED = ResultType.BLOCKING, ResultType.PIPELINED


def test_a_lost_partition_brings_its_producer_and_all_its_readers() -> None:
    partitions = [
        ResultPartition("a", "c", BLOCKING),
        ResultPartition("b", "c", BLOCKING),
        ResultPartition("a", "d", BLOCKING),
    ]
    strategy = FailoverStrategy(["a", "b", "c", "d"], partitions)
    decision = strategy.decide("c", lost=[("a", "c")])
    assert decision.vertices == ("a", "c", "d")
    assert decision.describe().splitlines() == [
        "restart c: c failed",
        "restart a: c needs its result again",
        "restart d: reads from a, which runs again",
    ]
    assert decision.reason == "c failed: 3 regions of 4 run again"
    assert decision.to_json()["regions"][1] == {"vertices": ["a"], "reason": "c needs its result again"}
    # It is forgotten afterwards.
    assert strategy.decide("c").vertices == ("c",)


def test_a_region_restarts_as_a_whole() -> None:
    strategy = FailoverStrategy(["a", "b"], [ResultPartition("a", "b", PIPELINED)])
    assert strategy.decide("b").vertices == ("a", "b")


def test_an_unknown_vertex_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="expected a vertex of this graph, found 'z'"):
        FailoverStrategy(["a"], []).decide("z")


@st.composite
def failures(draw: st.DrawFn) -> tuple[list[ResultPartition], list[tuple[str, str]], str]:
    pairs = draw(st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda p: p[0] < p[1]), max_size=14))
    partitions = [ResultPartition(f"v{p}", f"v{c}", draw(st.sampled_from(ResultType))) for p, c in sorted(pairs)]
    gone = [partition.name for partition in partitions if draw(st.booleans())]
    return partitions, gone, f"v{draw(st.integers(0, 7))}"


@given(failures())
def test_the_restart_set_is_closed(failure: tuple[list[ResultPartition], list[tuple[str, str]], str]) -> None:
    partitions, gone, failed = failure
    restarted = set(FailoverStrategy([f"v{k}" for k in range(8)], partitions).decide(failed, unavailable=gone).vertices)
    assert failed in restarted
    for partition in partitions:
        if partition.producer in restarted:
            assert partition.consumer in restarted
        if partition.consumer in restarted and (
            partition.name in gone or not partition.result_type.survives_consumer_failure
        ):
            assert partition.producer in restarted
        if partition.result_type.must_be_pipelined:
            assert (partition.producer in restarted) == (partition.consumer in restarted)
