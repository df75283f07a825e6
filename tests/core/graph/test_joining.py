"""Regions that become one along edges that are kept inside Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.core.graph.joining import JoinedGraph, join_regions
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
