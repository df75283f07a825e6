"""Steps that read one other step row by row run in its subtasks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.durability.chaining import Chains, chain_row_by_row
from airflow_abs.core.durability.demands import DeclaredDemands
from airflow_abs.core.graph.job_graph import JobGraph, JobVertex, build_job_graph
from tests.core.graph.drawn import draw_graph, graph_of


def chain(graph: JobGraph, kept: str = "", **declared: str) -> Chains:
    settings = {region.name: () for region in graph.regions}
    return chain_row_by_row(graph, DeclaredDemands(**declared), kept, settings)


def test_a_chain_has_the_subtasks_and_inputs_of_its_first_region_and_the_name_of_its_last() -> None:
    graph = graph_of("a>b b~c c~d d>e", sinks="e")
    chains = chain(graph)
    assert chains.joined.into == {"b": "d", "c": "d"}
    (of_chain,) = (region for region in chains.joined.graph.regions if region.name == "d")
    assert of_chain.vertices == ("b", "c", "d")
    assert of_chain.inputs == graph.region_of("b").inputs
    assert [(edge.producer, edge.consumer, edge.pipelined) for edge in of_chain.inner] == [
        ("b", "c", True),
        ("c", "d", True),
    ]
    assert (of_chain.parallelism, of_chain.subpartitions, of_chain.single_subtask_reason) == (None, 8, None)
    assert [(each.edge.producer, each.durable, each.reason) for each in chains.edges] == [
        (
            "b",
            False,
            "chained: c reads b row by row and is its only reader, so it runs in the same subtasks; "
            "chaining=False writes the rows",
        ),
        (
            "c",
            False,
            "chained: d reads c row by row and is its only reader, so it runs in the same subtasks; "
            "chaining=False writes the rows",
        ),
    ]


@pytest.mark.parametrize(
    ("graph", "declared", "kept"),
    [
        pytest.param(graph_of("a~b a~c"), {}, "", id="two readers"),
        pytest.param(graph_of("a~c b>c"), {}, "", id="two inputs"),
        pytest.param(graph_of("a~b", sinks="a"), {}, "", id="a sink"),
        pytest.param(graph_of("a~b", durable="ab"), {}, "", id="durable=True"),
        pytest.param(graph_of("a~b", fixed="b"), {}, "", id="a parallelism"),
        pytest.param(graph_of("a~b").with_single_subtask({"b": "a limit"}), {}, "", id="one subtask"),
        pytest.param(graph_of("a~b"), {"nondeterministic": "a"}, "", id="deterministic=False"),
        pytest.param(graph_of("a~b"), {"ordered": "a"}, "", id="another task"),
        pytest.param(graph_of("x>a y>a a~b"), {"joins": "a"}, "", id="a hot key may be cut"),
        pytest.param(graph_of("a~b"), {}, "a", id="edge_columns=all"),
        pytest.param(graph_of("a~b"), {}, "b", id="per_subtask"),
    ],
)
def test_what_demands_the_rows_of_its_own_or_other_subtasks_is_not_chained(
    graph: JobGraph, declared: dict[str, str], kept: str
) -> None:
    chains = chain(graph, kept, **declared)
    assert (chains.joined.graph, chains.joined.into, chains.edges) == (graph, {}, ())


def test_a_rescale_edge_of_the_authors_ends_a_chain() -> None:
    graph = graph_of("a~b b~c")
    declared = {edge: replace(edge, inferred=False) for edge in graph.edges if edge.producer == "b"}
    assert chain(graph.with_edges(declared)).joined.into == {"a": "b"}


def test_steps_of_unequal_settings_or_bounds_are_apart() -> None:
    graph = graph_of("a~b")
    assert chain_row_by_row(graph, DeclaredDemands(), "", {"a": 1, "b": 2}).joined.into == {}
    bounded = build_job_graph([JobVertex("a", has_source=True), JobVertex("b", max_parallelism=4)], graph.edges, 8)
    assert chain(bounded).joined.into == {}


@given(st.data())
def test_any_graph_keeps_every_vertex_once_and_chains_only_what_reads_one_step_row_by_row(data: st.DataObject) -> None:
    graph = draw_graph(data, ways=">~~-")
    chains = chain(graph)
    joined = chains.joined.graph
    assert sorted(name for region in joined.regions for name in region.vertices) == sorted(
        v.name for v in graph.vertices
    )
    chained = {each.edge for each in chains.edges}
    for edge in graph.edges:
        inside = graph.crosses_regions(edge) and edge.consumer in joined.region_of(edge.producer).vertices
        assert inside == (edge in chained)
    for edge in chained:
        assert graph.outputs_of(edge.producer) == (edge,)
        assert graph.region_of(edge.consumer).inputs == (edge,)
    assert all(
        region.single_subtask_reason is None
        or region in graph.regions
        or region.name not in chains.joined.into.values()
        for region in joined.regions
    )
