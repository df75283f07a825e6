"""Small days: regions that run inside the region that reads them, as if every edge between them were pipelined.

An edge between regions is blocking so that its bytes can be measured, and its consumers' number decided. A job that is
small enough for one subtask has nothing to decide: what it would write between its regions is only cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from airflow_abs.core.graph.job_graph import JobGraph, Region


@dataclass(frozen=True, slots=True)
class FusedGraph:
    """A graph after fusing; `into` names for each region that is gone the one that does its work."""

    graph: JobGraph
    into: Mapping[str, str]


def fuse_regions(graph: JobGraph, reason: str) -> FusedGraph:
    """Let every region run inside its only reader where nobody can see the difference but by the clock.

    A region stays on its own if it has a sink (its commit comes before its readers), if its readers are in several
    regions that stay, if nobody reads it, or if the user set a parallelism of it or of its reader. What takes in
    others becomes one subtask, for `reason`, and keeps its name.
    """
    homes = _find_homes(graph)
    into = {name: home for name, home in homes.items() if name != home}
    if not into:
        return FusedGraph(graph, {})
    home_of = {vertex: homes[region.name] for region in graph.regions for vertex in region.vertices}
    edges = tuple(
        replace(edge, pipelined=True) if home_of[edge.producer] == home_of[edge.consumer] else edge
        for edge in graph.edges
    )
    taking = set(into.values())
    fused = JobGraph(graph.vertices, edges, ())
    regions = tuple(
        _merge(fused, region.name, home_of, reason) if region.name in taking else region
        for region in graph.regions
        if region.name not in into
    )
    return FusedGraph(replace(fused, regions=regions), into)


def _find_homes(graph: JobGraph) -> dict[str, str]:
    """For every region the one that it runs in: its own, or the one that all its readers run in."""
    region_of = {vertex: region.name for region in graph.regions for vertex in region.vertices}
    by_name = {region.name: region for region in graph.regions}
    readers: dict[str, set[str]] = {name: set() for name in by_name}
    for region in graph.regions:
        for edge in region.inputs:
            readers[region_of[edge.producer]].add(region.name)
    sinks = {region_of[vertex.name] for vertex in graph.vertices if vertex.has_sink}
    homes: dict[str, str] = {}
    for name in reversed(by_name):  # consumers first
        found = {homes[reader] for reader in readers[name]}
        home = found.pop() if len(found) == 1 else name
        fixed = {by_name[name].parallelism, by_name[home].parallelism} != {None}
        homes[name] = name if fixed or name in sinks else home
    return homes


def _merge(graph: JobGraph, name: str, home_of: Mapping[str, str], reason: str) -> Region:
    """One region of all vertices that are at home in `name`; its blocking inputs need not be cut."""
    members = {vertex for vertex, home in home_of.items() if home == name}
    into = [edge for edge in graph.edges if edge.consumer in members]
    return Region(
        name=name,
        vertices=tuple(vertex.name for vertex in graph.vertices if vertex.name in members),
        inputs=tuple(edge for edge in into if edge.producer not in members),
        inner=tuple(edge for edge in into if edge.producer in members),
        parallelism=None,
        subpartitions=1,
        single_subtask_reason=reason,
    )
