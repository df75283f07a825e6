"""Which regions run inside which on a small day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.graph.fusing import FusedGraph, fuse_regions
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

HASH, FORWARD = Partitioning.HASH, Partitioning.FORWARD


def graph_of(edges: str, *, sinks: str = "", fixed: str = "") -> JobGraph:
    """`"a>c b>c"`: vertices are letters; those that nobody feeds are sources; `-` instead of `>` is a forward edge."""
    pairs = [(each[0], each[1], each[2]) for each in edges.split()]
    names = sorted({name for one, _, other in pairs for name in (one, other)})
    fed = {other for _, _, other in pairs}
    vertices = [JobVertex(n, 2 if n in fixed else None, None, n not in fed, n in sinks) for n in names]
    return build_job_graph(
        vertices,
        [
            JobEdge(one, other, one, FORWARD if how == "-" else HASH, () if how == "-" else ("key",))
            for one, how, other in pairs
        ],
        8,
    )


def fuse(graph: JobGraph) -> FusedGraph:
    return fuse_regions(graph, "small")


def test_a_chain_runs_inside_its_last_region() -> None:
    fused = fuse(graph_of("a>c b>c c>d", sinks="d"))
    assert fused.into == {"a": "d", "b": "d", "c": "d"}
    (only,) = fused.graph.regions
    assert (only.name, only.vertices, only.inputs) == ("d", ("a", "b", "c", "d"), ())
    assert (only.parallelism, only.subpartitions, only.single_subtask_reason) == (None, 1, "small")
    assert [edge.pipelined for edge in fused.graph.edges] == [True, True, True]


def test_a_diamond_runs_inside_its_last_region_too() -> None:
    assert fuse(graph_of("a>b a>c b>d c>d", sinks="d")).into == {"a": "d", "b": "d", "c": "d"}


def test_what_is_published_on_its_way_stays_and_takes_in_what_comes_before_it() -> None:
    fused = fuse(graph_of("a>b b>c c>d", sinks="bd"))
    assert fused.into == {"a": "b", "c": "d"}
    first, second = fused.graph.regions
    assert (first.name, first.vertices) == ("b", ("a", "b"))
    assert (second.name, second.vertices) == ("d", ("c", "d"))
    assert [edge.producer for edge in second.inputs] == ["b"]
    assert not next(edge for edge in fused.graph.edges if edge.producer == "b").pipelined


def test_what_several_last_regions_read_stays() -> None:
    fused = fuse(graph_of("a>b a>c", sinks="bc"))
    assert fused.into == {}
    assert fused.graph == graph_of("a>b a>c", sinks="bc")


def test_a_parallelism_that_the_user_set_is_kept_on_both_sides() -> None:
    assert fuse(graph_of("a>b b>c c>d", sinks="d", fixed="b")).into == {"c": "d"}


def test_regions_of_several_vertices_move_as_one() -> None:
    fused = fuse(graph_of("a-b b>c c-d", sinks="d"))
    assert fused.into == {"b": "d"}
    assert fused.graph.regions[0].vertices == ("a", "b", "c", "d")


@given(st.data())
def test_nothing_is_lost_and_producers_stay_in_front(data: st.DataObject) -> None:
    names = "abcdefg"
    pairs = [one + other for index, one in enumerate(names) for other in names[index + 1 :]]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=12, unique=True))
    edges = " ".join(f"{one}{data.draw(st.sampled_from('>>-'))}{other}" for one, other in chosen)
    graph = graph_of(edges, sinks=data.draw(st.sampled_from(["", "g", "cg", "abcdefg"])))
    fused = fuse(graph)
    vertices = [vertex for region in fused.graph.regions for vertex in region.vertices]
    assert sorted(vertices) == [vertex.name for vertex in sorted(graph.vertices, key=lambda each: each.name)]
    declared, left = ({region.name for region in each.regions} for each in (graph, fused.graph))
    assert left == declared - set(fused.into)
    assert not set(fused.into.values()) & set(fused.into)
    seen: set[str] = set()
    for region in fused.graph.regions:
        seen.update(region.vertices)
        assert all(edge.producer in seen for edge in region.inputs)
        assert all(fused.graph.crosses_regions(edge) for edge in region.inputs)
        assert not any(fused.graph.crosses_regions(edge) for edge in region.inner)
