"""Which regions start when."""

from __future__ import annotations

import pytest

from airflow_abs.core.blocks import DistributionPattern
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.region_scheduling import RegionScheduler
from airflow_abs.core.result_types import ResultType
from airflow_abs.core.topology import PartitionGroup, Topology, VertexEdge

ALL, POINT = DistributionPattern.ALL_TO_ALL, DistributionPattern.POINTWISE
BLOCKING, PIPELINED, HYBRID = ResultType.BLOCKING, ResultType.PIPELINED, ResultType.HYBRID_FULL


def scheduler(parallelism: dict[str, int], *edges: VertexEdge) -> RegionScheduler:
    return RegionScheduler(Topology.expand(parallelism, edges))


def test_a_pointwise_consumer_starts_when_its_own_producer_has_finished() -> None:
    regions = scheduler({"a": 2, "b": 2}, VertexEdge("a", "b", POINT, BLOCKING))
    assert regions.start() == (("a_0",), ("a_1",))
    assert regions.finish("a_1") == (("b_1",),)
    assert regions.finish("a_0") == (("b_0",),)
    assert regions.finish("b_0") == ()
    assert len(regions.started_regions) == 4


def test_an_all_to_all_consumer_waits_for_every_producer() -> None:
    regions = scheduler({"a": 2, "b": 2}, VertexEdge("a", "b", ALL, BLOCKING))
    regions.start()
    assert regions.finish("a_0") == ()
    assert regions.finish("a_1") == (("b_0",), ("b_1",))


def test_a_hybrid_result_is_read_while_it_is_written() -> None:
    regions = scheduler({"a": 1, "b": 1, "c": 1}, VertexEdge("a", "b", ALL, HYBRID), VertexEdge("b", "c", ALL, HYBRID))
    assert regions.start() == (("a_0",), ("b_0",), ("c_0",))


def test_a_group_from_inside_and_outside_is_waited_for() -> None:
    edges = (
        VertexEdge("v1", "v2", POINT, PIPELINED),
        VertexEdge("v2", "v3", POINT, BLOCKING),
        VertexEdge("v1", "v3", POINT, PIPELINED),
    )
    regions = scheduler({"v1": 4, "v2": 3, "v3": 2}, *edges)
    assert regions.cross_region_groups == (PartitionGroup(("v2_1", "v2_2"), ("v3_1",), BLOCKING),)
    assert [len(region) for region in regions.start()] == [5]
    assert regions.finish("v2_0") == ()
    assert [len(region) for region in regions.finish("v2_1")] == [4]


def test_a_restart_forgets_what_the_region_produced() -> None:
    regions = scheduler({"a": 2, "b": 1}, VertexEdge("a", "b", ALL, BLOCKING))
    regions.start()
    regions.finish("a_0")
    assert regions.restart(["a_0"]) == (("a_0",),)
    assert regions.finish("a_1") == ()
    assert regions.finish("a_0") == (("b_0",),)
    assert regions.restart(["b_0"]) == (("b_0",),)


def test_an_edge_of_an_unknown_vertex_is_refused() -> None:
    with pytest.raises(JobGraphError, match="edge 'a' -> 'b': 'b' is none of the vertices"):
        scheduler({"a": 1}, VertexEdge("a", "b", ALL, BLOCKING))


def test_unknown_subtasks_are_refused() -> None:
    regions = scheduler({"a": 1})
    with pytest.raises(InvalidValueError, match="expected a subtask of this topology, found 'b_0'"):
        regions.finish("b_0")
    with pytest.raises(InvalidValueError, match="found 'x'"):
        regions.restart(["x"])
