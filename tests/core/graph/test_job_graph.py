from __future__ import annotations

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

HASH, BROADCAST, REBALANCE, FORWARD = (
    Partitioning.HASH,
    Partitioning.BROADCAST,
    Partitioning.REBALANCE,
    Partitioning.FORWARD,
)


def source(name: str, **options: int) -> JobVertex:
    return JobVertex(name, has_source=True, **options)


def hashed(producer: str, consumer: str, *, pipelined: bool = False) -> JobEdge:
    return JobEdge(producer, consumer, producer, HASH, ("key",), pipelined)


def forward(producer: str, consumer: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, FORWARD, pipelined=True)


def build(vertices: list[JobVertex], edges: list[JobEdge], max_parallelism: int = 128) -> JobGraph:
    return build_job_graph(vertices, edges, max_parallelism)


def names(graph: JobGraph) -> list[tuple[str, tuple[str, ...]]]:
    return [(region.name, region.vertices) for region in graph.regions]


def test_every_vertex_is_its_own_region_when_all_edges_are_blocking() -> None:
    graph = build([source("a"), JobVertex("b"), JobVertex("c")], [hashed("a", "b"), hashed("b", "c")])
    assert names(graph) == [("a", ("a",)), ("b", ("b",)), ("c", ("c",))]
    assert graph.regions[1].inputs == (hashed("a", "b"),)
    assert graph.regions[1].subpartitions == 128


def test_an_inferred_edge_cuts_regions_as_a_hash_edge_does_and_can_be_named_later() -> None:
    inferred = JobEdge("a", "b", "a", Partitioning.INFERRED)
    graph = build([source("a", max_parallelism=7), JobVertex("b", max_parallelism=16)], [inferred])
    named = JobEdge("a", "b", "a", HASH, ("key",), inferred=True)
    expected = build([source("a", max_parallelism=7), JobVertex("b", max_parallelism=16)], [named])
    assert graph.with_edges({inferred: named}) == expected
    assert (str(inferred), str(named)) == ("a -> b.a [inferred]", "a -> b.a [hash(key), inferred]")


def test_forward_edges_tie_vertices_into_one_region_named_after_its_last() -> None:
    graph = build([source("a"), JobVertex("b"), JobVertex("c")], [forward("a", "b"), hashed("b", "c")])
    assert names(graph) == [("b", ("a", "b")), ("c", ("c",))]
    assert graph.regions[0].inner == (forward("a", "b"),)
    assert graph.regions[0].single_subtask_reason is None


def test_a_pipelined_hash_edge_makes_its_region_a_single_subtask() -> None:
    graph = build([source("a"), JobVertex("b")], [hashed("a", "b", pipelined=True)])
    (region,) = graph.regions
    assert region.single_subtask_reason == (
        "a -> b.a [hash(key)] lies inside the region: every consumer needs every producer at once"
    )


def test_a_cycle_of_regions_is_merged_into_one() -> None:
    # a and c are one region by the forward edge; b reads from it and feeds it, so none of the three can start alone.
    graph = build(
        [source("a"), JobVertex("b"), JobVertex("c")], [forward("a", "c"), hashed("a", "b"), hashed("b", "c")]
    )
    assert names(graph) == [("c", ("a", "b", "c"))]
    assert graph.regions[0].single_subtask_reason is not None


def test_vertices_are_ordered_by_their_edges_and_then_by_declaration() -> None:
    graph = build([JobVertex("late"), source("b"), source("a")], [hashed("a", "late"), hashed("b", "late")])
    assert [vertex.name for vertex in graph.vertices] == ["b", "a", "late"]
    assert [region.name for region in graph.producer_regions(graph.region_of("late"))] == ["b", "a"]


def test_the_subpartitions_of_a_region_are_the_consumers_own_max_parallelism() -> None:
    graph = build([source("a"), JobVertex("b", max_parallelism=16)], [hashed("a", "b")])
    assert graph.region_of("b").subpartitions == 16
    assert graph.region_of("a").subpartitions == 128


def test_a_fixed_parallelism_above_the_jobs_bound_raises_that_bound() -> None:
    graph = build([source("a"), JobVertex("b", parallelism=200)], [hashed("a", "b")])
    assert (graph.region_of("b").parallelism, graph.region_of("b").subpartitions) == (200, 200)


def test_questions_about_single_vertices_and_edges_are_answered() -> None:
    graph = build([source("a"), JobVertex("b")], [hashed("a", "b")])
    assert graph.vertex("b") == JobVertex("b")
    assert graph.inputs_of("b") == graph.outputs_of("a") == (hashed("a", "b"),)
    assert graph.crosses_regions(hashed("a", "b"))
    assert str(JobEdge("a", "b", "x", BROADCAST)) == "a -> b.x [broadcast]"


def test_all_regions_before_one_are_found_near_and_far() -> None:
    vertices = [source("a"), source("other"), *(JobVertex(name) for name in "bcd")]
    edges = [hashed(*pair) for pair in ("ab", "ac", "bd", "cd")]
    graph = build(vertices, edges)
    assert [region.name for region in graph.regions_before(graph.region_of("d"))] == ["a", "b", "c"]
    assert graph.regions_before(graph.region_of("other")) == ()


@pytest.mark.parametrize(
    ("vertices", "edges", "message"),
    [
        ([], [], "the job has no vertex; declare at least one AdaptiveSparkOperator inside it"),
        ([source("a"), source("a")], [], "vertex 'a': declared 2 times; give each its own task_id"),
        (
            [JobVertex("a", parallelism=0, has_source=True)],
            [],
            "vertex 'a': parallelism is 0; expected an integer of at least 1",
        ),
        (
            [JobVertex("a", max_parallelism=True, has_source=True)],
            [],
            "vertex 'a': max_parallelism is True; expected an integer of at least 1",
        ),
        (
            [JobVertex("b")],
            [hashed("a", "b")],
            "vertex 'b': input 'a' comes from 'a', which is not a vertex of this job; its vertices are b",
        ),
        (
            [source("a"), JobVertex("b")],
            [JobEdge("a", "b", "a", HASH)],
            "vertex 'b': input 'a' is hash() without keys; name at least one column, or use rescale() or rebalance()",
        ),
        ([JobVertex("a")], [], "vertex 'a': it has neither a source nor inputs; give it one of them"),
        (
            [JobVertex("a"), JobVertex("b")],
            [hashed("a", "b"), hashed("b", "a")],
            "the job has a cycle among a, b; a vertex cannot need its own output",
        ),
        (
            [source("a", parallelism=2), JobVertex("b", parallelism=3)],
            [forward("a", "b")],
            "vertices of one pipelined region have different parallelism (a=2, b=3); set the same for all",
        ),
        (
            [source("a"), JobVertex("b", parallelism=3)],
            [hashed("a", "b", pipelined=True)],
            "vertex 'b': parallelism=3 cannot be kept, a -> b.a [hash(key)] lies inside the region: every "
            "consumer needs "
            "every producer at once; drop it or make the edge blocking",
        ),
        (
            [source("a"), source("x"), JobVertex("b", max_parallelism=8), JobVertex("c", max_parallelism=16)],
            [hashed("a", "b"), forward("b", "c"), hashed("x", "c")],
            "the blocking inputs of region 'c' have different max_parallelism (b: 8, c: 16); inputs that "
            "one subtask reads "
            "by range must be cut alike: set the same max_parallelism",
        ),
        (
            [source("a", parallelism=9, max_parallelism=8)],
            [],
            "vertex 'a': parallelism=9 exceeds its max_parallelism=8; lower one or raise the other",
        ),
    ],
)
def test_a_graph_that_cannot_run_says_what_is_wrong(
    vertices: list[JobVertex], edges: list[JobEdge], message: str
) -> None:
    with pytest.raises(JobGraphError) as caught:
        build(vertices, edges)
    assert str(caught.value) == message


def test_rescale_inputs_ask_for_no_common_number_of_subpartitions() -> None:
    # b and c run together; only b is read by key, and by 16 subpartitions
    edges = [hashed("a", "b"), forward("b", "c"), JobEdge("a", "c", "files", Partitioning.RESCALE)]
    graph = build([source("a"), JobVertex("b", max_parallelism=16), JobVertex("c", max_parallelism=9)], edges)
    assert graph.region_of("c").subpartitions == 16
    alone = build([source("a"), JobVertex("c", max_parallelism=9)], [edges[2]])
    assert alone.region_of("c").subpartitions == 9


def test_a_rescale_edge_inside_a_region_is_subtask_to_subtask() -> None:
    rescale = JobEdge("a", "c", "again", Partitioning.RESCALE)
    graph = build([source("a"), JobVertex("b"), JobVertex("c")], [forward("a", "b"), forward("b", "c"), rescale])
    assert [region.vertices for region in graph.regions] == [("a", "b", "c")]
    assert graph.regions[0].single_subtask_reason is None


def test_a_region_may_be_one_subtask_for_a_reason_that_only_plan_finds() -> None:
    graph = build([source("a"), JobVertex("b"), JobVertex("c")], [hashed("a", "b"), forward("b", "c")])
    single = graph.with_single_subtask({"b": "b limits"})
    assert [region.single_subtask_reason for region in single.regions] == [None, "b limits"]
    assert single.with_single_subtask({"c": "c sorts"}) == single
    assert graph.with_single_subtask({}) == graph
