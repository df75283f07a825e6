"""Regions that become one along edges that are kept inside Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.durability.rule import Conditions, decide_durability
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.joining import JoinedGraph, find_idle, join_regions
from tests.core.graph.drawn import draw_graph, graph_of


def join(graph: JobGraph, *inside: str) -> JoinedGraph:
    """Along edges given as ``"ab"``."""
    return join_regions(graph, [edge for edge in graph.edges if edge.producer + edge.consumer in inside])


def check_computed_once(graph: JobGraph, joined: JoinedGraph, inside: list[JobEdge]) -> None:
    """A joined graph is a graph: every vertex in one region, producers in front, and nothing else is changed."""
    vertices = [vertex for region in joined.graph.regions for vertex in region.vertices]
    assert sorted(vertices) == sorted(vertex.name for vertex in graph.vertices)
    declared, left = ({region.name for region in each.regions} for each in (graph, joined.graph))
    assert left == declared - set(joined.into)
    assert not set(joined.into.values()) & set(joined.into)
    seen: set[str] = set()
    for region in joined.graph.regions:
        seen.update(region.vertices)
        assert all(edge.producer in seen for edge in region.inputs)
        assert all(joined.graph.crosses_regions(edge) for edge in region.inputs)
        assert not any(joined.graph.crosses_regions(edge) for edge in region.inner)
    after = {(edge.producer, edge.consumer): joined.graph.crosses_regions(edge) for edge in joined.graph.edges}
    assert not any(after[edge.producer, edge.consumer] for edge in inside)


def test_a_chain_becomes_its_last_region() -> None:
    joined = join(graph_of("a>c b>c c>d", sinks="d"), "ac", "bc", "cd")
    assert joined.into == {"a": "d", "b": "d", "c": "d"}
    (only,) = joined.graph.regions
    assert (only.name, only.vertices, only.inputs) == ("d", ("a", "b", "c", "d"), ())
    assert (only.parallelism, only.subpartitions) == (None, 1)
    assert only.single_subtask_reason == "a, b, c, d run as one Spark operation, without writing in between"
    assert [edge.pipelined for edge in joined.graph.edges] == [True, True, True]


def test_a_durable_edge_in_the_middle_leaves_two_regions() -> None:
    joined = join(graph_of("a>b b>c c>d"), "ab", "cd")
    assert joined.into == {"a": "b", "c": "d"}
    first, second = joined.graph.regions
    assert (first.name, first.vertices) == ("b", ("a", "b"))
    assert (second.name, second.vertices) == ("d", ("c", "d"))
    assert [edge.producer for edge in second.inputs] == ["b"]
    assert not next(edge for edge in joined.graph.edges if edge.producer == "b").pipelined


def test_regions_of_several_vertices_move_as_one() -> None:
    joined = join(graph_of("a-b b>c c-d"), "bc")
    assert joined.into == {"b": "d"}
    assert joined.graph.regions[0].vertices == ("a", "b", "c", "d")


def test_without_edges_nothing_changes() -> None:
    graph = graph_of("a>b a>c", sinks="bc")
    assert join(graph) == JoinedGraph(graph, {})


def test_regions_that_would_wait_for_each_other_are_refused() -> None:
    # a and c as one would be read by b, and read b
    with pytest.raises(InvalidValueError, match="joined along these edges, b, c would wait for each other; expected"):
        join(graph_of("a>b b>c a>c"), "ac")


@given(st.data())
def test_any_edges_give_a_graph_in_which_every_vertex_is_computed_once_or_are_refused(data: st.DataObject) -> None:
    graph = draw_graph(data)
    crossing = [edge for edge in graph.edges if graph.crosses_regions(edge)]
    inside = [edge for edge in crossing if data.draw(st.booleans())]
    try:
        joined = join_regions(graph, inside)
    except InvalidValueError:
        return
    check_computed_once(graph, joined, inside)


def idle(joined: JoinedGraph, graph: JobGraph, tolerant: str = "abcd") -> tuple[str, ...]:
    return find_idle(graph, joined.into, tolerant)


def test_a_region_is_idle_if_all_before_it_is_done_inside_others_too() -> None:
    graph = graph_of("a>c b>c c>d", sinks="d")
    assert idle(join(graph, "ac", "bc", "cd"), graph) == ("a", "b", "c")
    assert idle(join(graph, "ac", "bc"), graph) == ("a", "b")
    assert idle(join(graph, "cd"), graph) == ()  # who waits for c waits for a and b
    assert idle(join(graph, "ac"), graph) == ("a",)
    assert idle(join(graph), graph) == ()


def test_a_region_behind_one_that_ran_is_idle_once_that_has_ended() -> None:
    graph = graph_of("a>b b>c c>d d>e", sinks="e")
    joined = join(graph, "bc", "cd", "de")
    regions = {region.name for region in graph.regions}
    assert find_idle(graph, joined.into, regions) == ()
    assert find_idle(graph, joined.into, regions, ended="a") == ("b", "c", "d")
    assert find_idle(graph, joined.into, regions, ended="ab") == ("c", "d")
    assert find_idle(graph, joined.into, regions - {"d"}, ended="a") == ("b",)


def test_a_region_is_not_idle_if_a_reader_needs_it_to_have_run() -> None:
    graph = graph_of("a>c b>c c>d", sinks="d")
    assert idle(join(graph, "ac", "bc", "cd"), graph, "abd") == ()
    assert idle(join(graph, "ac", "bc", "cd"), graph, "abc") == ("a", "b")


@given(st.data())
def test_a_region_still_waits_for_all_that_it_reads_when_idle_ones_are_skipped(data: st.DataObject) -> None:
    graph = draw_graph(data)
    inside = [edge for edge in graph.edges if graph.crosses_regions(edge) and data.draw(st.booleans())]
    durability = decide_as_asked(graph, {(edge.producer, edge.consumer) for edge in inside})
    joined = join_regions(graph, durability)
    skipped = set(find_idle(graph, joined.into, {region.name for region in graph.regions}))
    declared = {region.name: region for region in graph.regions}
    for region in joined.graph.regions:
        waited_for, waiting = set[str](), [region.name]
        while waiting:
            before = {other.name for other in graph.producer_regions(declared[waiting.pop()])} - skipped - waited_for
            waited_for |= before
            waiting += before
        assert {other.name for other in joined.graph.producer_regions(region)} <= waited_for


def decide_as_asked(graph: JobGraph, asked: set[tuple[str, str]]) -> list[JobEdge]:
    """What the rule keeps inside if it always pays, except where it is not asked to."""
    predictions = {region.name: Prediction(seconds=1.0, input_bytes=1, output_bytes=1) for region in graph.regions}
    apart = {
        region.name: "not asked"
        for region in graph.regions
        for edge in graph.edges
        if edge.producer in region.vertices
        and graph.crosses_regions(edge)
        and (edge.producer, edge.consumer) not in asked
    }
    conditions = Conditions(mean_seconds=1e9, slots=1, local_bytes=2**40, demands=apart)
    return [each.edge for each in decide_durability(graph, predictions, conditions) if not each.durable]
