"""Small regions of which all edges are written share a task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.durability.demands import DaysDemands, DeclaredDemands
from airflow_abs.core.durability.prediction import JobHistory, Prediction, RegionHistory, RunHistory
from airflow_abs.core.durability.sharing import SharedTasks, share_tasks
from airflow_abs.core.graph.job_graph import JobGraph
from tests.core.graph.drawn import draw_graph, graph_of

MIB = 2**20


def share(graph: JobGraph, declared: DeclaredDemands | None = None, **read_mib: int) -> SharedTasks:
    """Regions read 10 MiB unless `read_mib` says otherwise; a shared task takes regions of up to 128 MiB."""
    sizes = {region.name: read_mib.get(region.name, 10) * MIB for region in graph.regions}
    predictions = {name: Prediction(1.0, size, size // 2) for name, size in sizes.items()}
    return share_tasks(graph, declared or DeclaredDemands(), DaysDemands(predictions, 128 * MIB, 1), {}, 128 * MIB)


def test_a_small_day_is_one_task_and_every_edge_is_a_file() -> None:
    shared = share(graph_of("a>c b>c c>d", sinks="d"))
    assert shared.joined.into == {"a": "d", "b": "d", "c": "d"}
    (only,) = shared.joined.graph.regions
    assert only.single_subtask_reason == "a, b, c, d run as one subtask, and each is written"
    assert [edge.durable for edge in only.inner] == [True, True, True]
    assert [(each.durable, each.reason) for each in shared.edges] == [
        (True, "durable, without a task of its own: it reads 10.0 MiB and runs in the task of d")
    ] * 3


def test_what_reads_much_has_a_task_of_its_own_and_so_has_what_it_reads() -> None:
    shared = share(graph_of("a>b b>c c>d d>e", sinks="e"), c=200)
    assert shared.joined.into == {"a": "b", "d": "e"}
    reasons = {each.edge.producer: each.reason for each in shared.edges}
    assert (
        reasons["b"]
        == reasons["c"]
        == "durable: c is predicted to read 200.0 MiB, above the 128.0 MiB of a shared task's step"
    )


def test_readers_of_a_sink_and_of_what_is_not_repeatable_are_apart_from_it() -> None:
    # Readers of a sink's rows wait for what was published; a reader of what is not repeatable needs the rows that were.
    shared = share(graph_of("a>b b>c c>d d>e", sinks="be"), DeclaredDemands(nondeterministic={"c"}))
    assert shared.joined.into == {"a": "b", "d": "e"}


def test_what_is_said_of_edges_has_no_meaning_where_all_are_written() -> None:
    shared = share(graph_of("a>b b>c c>d", sinks="d", durable="ab", inside="bc"))
    assert shared.joined.into == {"a": "d", "b": "d", "c": "d"}
    assert all(edge.durable for edge in shared.joined.graph.edges)


def test_a_shared_task_that_did_not_come_to_its_end_is_taken_apart_in_the_next_run() -> None:
    graph = graph_of("a>b b>c", sinks="c")
    predictions = {name: Prediction(1.0, MIB, MIB) for name in "abc"}
    for is_whole, into in ((False, {}), (True, {"a": "c", "b": "c"})):
        last = RunHistory(1.0, (RegionHistory(("a", "b", "c"), 1, 1, 1, 1.0, is_whole=is_whole),))
        day = DaysDemands(predictions, 128 * MIB, 1, JobHistory((last,)))
        shared = share_tasks(graph, DeclaredDemands(), day, {}, 128 * MIB)
        assert shared.joined.into == into
    assert shared.edges[0].reason == "durable, without a task of its own: it reads 1.0 MiB and runs in the task of c"


def test_forward_edges_stay_inside_spark() -> None:
    shared = share(graph_of("a-b b>c", sinks="c"))
    assert {edge.producer: edge.durable for edge in shared.joined.graph.edges} == {"a": None, "b": True}


@given(st.data())
def test_every_edge_between_regions_is_written_and_nothing_large_shares_a_task(data: st.DataObject) -> None:
    graph = draw_graph(data)
    sizes: dict[str, Any] = {region.name: data.draw(st.sampled_from([1, 128, 129])) for region in graph.regions}
    shared = share(graph, **sizes)
    crossing = [edge for edge in graph.edges if graph.crosses_regions(edge)]
    assert [each.edge for each in shared.edges] == crossing
    assert all(each.durable for each in shared.edges)
    joined = shared.joined.graph
    for before, after in zip(graph.edges, joined.edges, strict=True):
        if before in crossing and not joined.crosses_regions(after):
            assert after == replace(before, pipelined=True, durable=True)
            regions = {graph.region_of(before.producer).name, graph.region_of(before.consumer).name}
            assert not any(sizes[name] > 128 for name in regions)
        else:
            assert replace(after, pipelined=before.pipelined) == before
