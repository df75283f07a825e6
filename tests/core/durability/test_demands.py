"""Why an edge has to be durable, whatever that costs."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.durability.demands import (
    DaysDemands,
    DeclaredDemands,
    check_kept_inside,
    find_declared,
    find_demands,
)
from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from tests.core.graph.drawn import graph_of

MIB = 2**20
CHAIN = graph_of("a>b b>c c>d", sinks="d")


def demands(declared: DeclaredDemands | None = None, **day: Any) -> dict[str, str]:
    predictions = {name: Prediction(1.0, 0, 200 * MIB) for name in "abcd"}
    given = {"predictions": predictions, "target_bytes": 128 * MIB, "min_parallelism": 1} | day
    return find_demands(CHAIN, declared or DeclaredDemands(), DaysDemands(**given))


def test_what_is_declared_of_vertices_and_edges() -> None:
    graph = graph_of("a>b b>c c>d d>e", sinks="d", durable="bc")
    assert find_declared(graph, DeclaredDemands(nondeterministic={"a"}, ordered={"c"})) == {
        "a": "a returns different rows when it reruns, and its readers need the first ones",
        "b": "durable=True on the edge to c",
        "c": "another task comes after c",
        "d": "d has a sink",
    }


def test_what_expectations_hold_of_is_written_before_it_is_read() -> None:
    vertices = [JobVertex("a", has_source=True, expectations=("some",)), JobVertex("b")]
    graph = build_job_graph(vertices, [JobEdge("a", "b", "a", Partitioning.RESCALE)], 8)
    assert find_declared(graph, DeclaredDemands()) == {
        "a": "a has expectations: its readers do not run on rows that fail them"
    }


def test_a_join_that_is_declared_is_written_for_when_its_hot_key_may_have_to_be_cut() -> None:
    declared = DeclaredDemands(joins={"c"})
    assert demands(declared) == {
        "b": "c is declared with join=, and a hot key in 200.0 MiB may have to be split",
        "d": "d has a sink",
    }
    assert demands(declared, target_bytes=200 * MIB) == {"d": "d has a sink"}


def test_a_least_number_of_subtasks_leaves_nothing_to_join() -> None:
    asked = "min_parallelism 2 asks for more than one subtask"
    assert demands(min_parallelism=2) == {"a": asked, "b": asked, "c": asked, "d": "d has a sink"}


@pytest.mark.parametrize(
    ("graph", "declared", "message"),
    [
        (graph_of("a>b", sinks="a", inside="ab"), DeclaredDemands(), "a has a sink"),
        (graph_of("a>b", fixed="b", inside="ab"), DeclaredDemands(), "b has a parallelism of its own"),
        (
            graph_of("a>b", inside="ab"),
            DeclaredDemands(nondeterministic={"a"}),
            "a returns different rows when it reruns, and its readers need the first ones",
        ),
        (graph_of("a>b a>c", inside="ab", durable="ac"), DeclaredDemands(), r"durable=True on the edge to c"),
    ],
)
def test_an_edge_that_cannot_be_kept_inside_is_refused(graph: Any, declared: DeclaredDemands, message: str) -> None:
    expected = rf"a -> b.a \[hash\(key\)\]: durable=False is not possible: {message}; drop one of them"
    with pytest.raises(JobGraphError, match=expected):
        check_kept_inside(graph, declared)


def test_one_that_can_is_not() -> None:
    check_kept_inside(graph_of("a>b b>c", sinks="c", inside="ab", durable="bc"), DeclaredDemands(ordered={"b"}))


def test_durable_has_no_meaning_inside_of_a_region() -> None:
    graph = build_job_graph(
        [JobVertex("a", has_source=True), JobVertex("b")],
        [JobEdge("a", "b", "a", Partitioning.HASH, ("key",), pipelined=True, durable=True)],
        8,
    )
    with pytest.raises(
        JobGraphError, match=r"durable=True has no effect: both vertices are in one region, .* drop durable"
    ):
        check_kept_inside(graph, DeclaredDemands())
