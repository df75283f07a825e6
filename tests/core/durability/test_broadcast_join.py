"""Which joins read their small side whole today."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.durability.broadcast_join import (
    MOST_BROADCAST,
    WORTH_BYTES,
    find_broadcast_joins,
    fits_broadcast,
)
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

MIB = 2**20
ORDERS = JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("customer",))
CUSTOMERS = JobEdge("customers", "enriched", "customers", Partitioning.HASH, ("id",))
TARGET = 128 * MIB
SOURCES = ("orders", "customers", "nations")
NATIONS = JobEdge("nations", "enriched", "nations", Partitioning.BROADCAST)


def graph_of(*more: JobEdge, parallelism: int | None = None) -> JobGraph:
    names = dict.fromkeys(["orders", "customers", "nations", *(edge.producer for edge in more)])
    readers = dict.fromkeys(edge.consumer for edge in more if edge.consumer not in {*names, "enriched"})
    vertices = [JobVertex(name, has_source=True) for name in names]
    vertices += [JobVertex("enriched", parallelism), *map(JobVertex, readers)]
    return build_job_graph(vertices, [ORDERS, CUSTOMERS, NATIONS, *more], 128)


def found_for(graph: JobGraph, orders: int, customers: int, **more: int) -> dict[JobEdge, JobEdge]:
    outputs = {"orders": orders, "customers": customers, "nations": 1, **more}
    joins = find_broadcast_joins(graph, {ORDERS}, SOURCES, outputs, TARGET)
    return {edge: other for join in joins for edge, other in join.edges.items()}


def test_a_large_side_whose_rows_may_be_spread_is_not_hashed() -> None:
    outputs = {"orders": 900 * MIB, "customers": 5 * MIB, "nations": 1}
    (join,) = find_broadcast_joins(graph_of(), {ORDERS}, SOURCES, outputs, TARGET)
    assert join.region == "enriched"
    assert {str(edge): other.how for edge, other in join.edges.items()} == {
        "orders -> enriched.orders [hash(customer)]": "rescale, inferred",
        "customers -> enriched.customers [hash(id)]": "broadcast, inferred",
    }
    assert join.reason == (
        "broadcast join: every subtask reads customers whole (at most 5.0 MiB; the limit is 8.0 MiB) and its own files "
        "of orders (at most 900.0 MiB), which are not hashed"
    )


def test_it_stays_as_declared_where_it_would_be_wrong_or_not_pay() -> None:
    large, small = 900 * MIB, 5 * MIB
    assert found_for(graph_of(), large, MOST_BROADCAST)
    assert not found_for(graph_of(), large, MOST_BROADCAST + 1)
    assert not found_for(graph_of(), WORTH_BYTES - 1, small)
    assert not found_for(graph_of(parallelism=16), large, small)
    outputs = {"orders": large, "customers": small, "nations": 1}
    assert not find_broadcast_joins(graph_of(), {CUSTOMERS}, SOURCES, outputs, TARGET)
    assert not found_for(graph_of().with_single_subtask({"enriched": "it sorts"}), large, small)


def test_files_are_no_finer_than_a_small_target() -> None:
    outputs = {"orders": 900 * MIB, "customers": 5 * MIB, "nations": 1}
    assert find_broadcast_joins(graph_of(), {ORDERS}, SOURCES, outputs, WORTH_BYTES)
    assert not find_broadcast_joins(graph_of(), {ORDERS}, SOURCES, outputs, WORTH_BYTES - 1)


def test_all_other_sides_together_must_be_small() -> None:
    third = JobEdge("returns", "enriched", "returns", Partitioning.HASH, ("customer",))
    found = found_for(graph_of(third), 900 * MIB, 5 * MIB, returns=3 * MIB)
    assert {edge.producer: other.partitioning for edge, other in found.items()} == {
        "orders": Partitioning.RESCALE,
        "customers": Partitioning.BROADCAST,
        "returns": Partitioning.BROADCAST,
    }
    assert not found_for(graph_of(third), 900 * MIB, 5 * MIB, returns=4 * MIB)


def test_rows_that_another_step_reads_by_hash_are_not_written_twice() -> None:
    other = JobEdge("orders", "totals", "orders", Partitioning.HASH, ("customer",))
    assert not found_for(graph_of(other), 900 * MIB, 5 * MIB)


def test_rows_that_would_be_in_other_files_if_they_were_written_again_are_hashed() -> None:
    outputs = {"orders": 900 * MIB, "customers": 5 * MIB, "nations": 1, "raw": 1}
    assert not find_broadcast_joins(graph_of(), {ORDERS}, {"customers", "nations"}, outputs, TARGET)
    sorted_before = graph_of(JobEdge("raw", "orders", "raw", Partitioning.RESCALE))
    assert not find_broadcast_joins(sorted_before, {ORDERS}, (*SOURCES, "raw"), outputs, TARGET)


def test_few_bytes_of_many_rows_are_not_hashed_in_memory() -> None:
    assert fits_broadcast(MOST_BROADCAST, 1_000_000, 2)
    assert not fits_broadcast(MOST_BROADCAST + 1, 1, 1)
    assert not fits_broadcast(1_000_000, 10_000_000, 3)  # of equal values, which a dictionary holds once


@given(sizes=st.lists(st.integers(0, 4 * WORTH_BYTES), min_size=2, max_size=5), data=st.data())
def test_what_is_read_whole_is_small_and_what_is_not_hashed_may_be_spread(sizes: list[int], data: Any) -> None:
    names = [f"side{number}" for number in range(len(sizes))]
    edges = [JobEdge(name, "joined", name, Partitioning.HASH, ("key",)) for name in names]
    graph = build_job_graph([*(JobVertex(name, has_source=True) for name in names), JobVertex("joined")], edges, 128)
    spread = set(data.draw(st.sets(st.sampled_from(edges))))
    outputs = dict(zip(names, sizes, strict=True))
    for join in find_broadcast_joins(graph, spread, names, outputs, TARGET):
        (large,) = [edge for edge, other in join.edges.items() if other.partitioning is Partitioning.RESCALE]
        whole = [edge for edge, other in join.edges.items() if other.partitioning is Partitioning.BROADCAST]
        assert {large, *whole} == set(edges)
        assert large in spread
        assert outputs[large.producer] >= WORTH_BYTES
        assert sum(outputs[edge.producer] for edge in whole) <= MOST_BROADCAST
