"""Topics regions, region_scheduling, failover, forward_groups."""

from __future__ import annotations

from typing import Any

from airflow_abs.core.blocks import DistributionPattern
from airflow_abs.core.failover import FailoverStrategy, ResultPartition
from airflow_abs.core.forward_groups import compute_forward_groups, spread_parallelism
from airflow_abs.core.region_scheduling import RegionScheduler
from airflow_abs.core.result_types import ResultType
from airflow_abs.core.topology import Topology, VertexEdge

from airflow_abs.core.graph.regions import compute_pipelined_regions, compute_strong_components, group_members
from flink_shapes.notation import Given, number_or_none


def regions(version: str | None, given: Given) -> dict[str, Any]:
    if "num_nodes" in given:
        return _components(given)
    found = compute_pipelined_regions(
        given["vertices"],
        [(producer, consumer, ResultType(kind).must_be_pipelined) for producer, consumer, kind in given["edges"]],
    )
    in_order = sorted(found, key=lambda region: given["vertices"].index(region[0]))
    return {
        "regions": [list(region) for region in in_order],
        "region_sizes": [len(region) for region in in_order],
        "number_of_regions": len(in_order),
    }


def _components(given: Given) -> dict[str, Any]:
    # The only rule that a case spells out instead of listing the edges is the ring.
    count = given["num_nodes"]
    successors = given["out_edges"] if "out_edges" in given else [[(node + 1) % count] for node in range(count)]
    components = group_members(compute_strong_components(successors))
    return {
        "components": components,
        "number_of_components": len(components),
        "component_size": max(map(len, components)),
    }


def region_scheduling(version: str | None, given: Given) -> dict[str, Any]:
    edges = [
        VertexEdge(producer, consumer, DistributionPattern(pattern), ResultType(kind))
        for producer, consumer, pattern, kind in given["edges"]
    ]
    topology = Topology.expand(given["parallelism"], edges)
    scheduler = RegionScheduler(topology)
    scheduled: list[list[str]] = []
    last: list[list[str]] = []
    totals = []
    for event in given.get("events", [given.get("event", "start")]):
        started = [list(region) for region in _apply(scheduler, topology, event)]
        last = started or last
        scheduled += started
        totals.append(len(scheduled))
    return {
        "scheduled": scheduled,
        "last_scheduled": last,
        "total_regions_scheduled_after_each_event": totals,
        "scheduled_region_sizes_in_order": [len(region) for region in scheduled],
        "number_of_regions": len(topology.regions),
        "regions": [list(region) for region in topology.regions],
        "region_size_of": {vertex: len(topology.region_of[vertex]) for vertex in _subtasks_of_last_vertex(given)},
        "number_of_cross_region_groups": len(scheduler.cross_region_groups),
        "cross_region_groups": [list(group.producers) for group in scheduler.cross_region_groups],
    }


def _subtasks_of_last_vertex(given: Given) -> list[str]:
    vertex, count = list(given["parallelism"].items())[-1]
    return [f"{vertex}_{index}" for index in range(count)]


def _apply(scheduler: RegionScheduler, topology: Topology, event: str) -> Any:
    if event.startswith("start"):
        return scheduler.start()
    if event.startswith("restart"):
        named = [vertex for vertex in topology.vertices if vertex in event.replace(",", " ").split()]
        return scheduler.restart(named or topology.vertices)
    return scheduler.finish(event.split(maxsplit=1)[0])


def failover(version: str | None, given: Given) -> dict[str, Any]:
    strategy = FailoverStrategy(
        given["vertices"],
        [ResultPartition(producer, consumer, ResultType(kind)) for producer, consumer, kind in given["edges"]],
    )
    decision = strategy.decide(
        given["failed"],
        lost=_names(given.get("failed_partition")),
        unavailable=_names(given.get("unavailable_partitions")),
    )
    return {"restart": list(decision.vertices)}


def _names(partitions: Any) -> list[tuple[str, str]]:
    """Partitions as [[producer, consumer], ...], or a single one as [producer, consumer]."""
    if partitions and isinstance(partitions[0], str):
        return [tuple(partitions)]
    return [tuple(name) for name in partitions or ()]


def forward_groups(version: str | None, given: Given) -> dict[str, Any]:
    forward = [(producer, consumer) for producer, consumer, kind in given["edges"] if kind.lower() == "forward"]
    groups = compute_forward_groups(given["vertices"], forward)
    known = {vertex: number_or_none(given.get("parallelism", {}).get(vertex)) for vertex in given["vertices"]}
    return {
        "number_of_groups": len(groups),
        "group_sizes": [len(group) for group in groups],
        "groups": [list(group) for group in groups],
        "parallelism": {vertex: number or -1 for vertex, number in spread_parallelism(groups, known).items()},
    }
