"""Regions that become one on the day: along edges that are kept inside Spark, as if those were pipelined.

They are FLIP-119's pipelined regions, found when the day's bytes are known instead of when the graph is declared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region, sort_regions
from airflow_abs.core.graph.regions import compute_components, compute_strong_components

_ONE_OPERATION = "one Spark operation, without writing in between"


@dataclass(frozen=True, slots=True)
class JoinedGraph:
    """A graph after joining; `into` names for each region that is gone the one that does its work."""

    graph: JobGraph
    into: Mapping[str, str]


def join_regions(graph: JobGraph, inside: Collection[JobEdge], *, written: bool = False) -> JoinedGraph:
    """Let the regions on both sides of each of these edges be one.

    What takes in others keeps the name of its last region and becomes one subtask. An edge that is not among `inside`,
    and whose two regions are joined by others, stays inside Spark, too. If they are `written`, all edges that become
    inner ones are files nevertheless, which the subtask writes and reads one after the other.

    Raises:
        InvalidValueError: joined like this, a region would wait for what waits for it; names some of them.
    """
    how = "one subtask, and each is written" if written else _ONE_OPERATION

    def as_one_subtask(members: Region) -> Region:
        reason = f"{', '.join(members.vertices)} run as {how}"
        return replace(members, parallelism=None, subpartitions=1, single_subtask_reason=reason)

    return _join(graph, inside, as_one_subtask, written=written)


def chain_regions(graph: JobGraph, inside: Collection[JobEdge]) -> JoinedGraph:
    """Let the consumer of each of these edges run in the subtasks of its producer, as Flink chains operators.

    A chain keeps the name of its last region and has the subtasks that its first one would have. Each region of it but
    the first reads from the one before it alone.
    """
    return _join(graph, inside, lambda members: members)


def _join(
    graph: JobGraph, inside: Collection[JobEdge], finish: Callable[[Region], Region], *, written: bool = False
) -> JoinedGraph:
    homes = _find_homes(graph, inside)
    into = {name: home for name, home in homes.items() if name != home}
    if not into:
        return JoinedGraph(graph, {})
    home_of = {vertex: homes[region.name] for region in graph.regions for vertex in region.vertices}
    _check_no_cycle(graph, home_of)
    edges = tuple(
        _as_inner(edge, written and graph.crosses_regions(edge))
        if home_of[edge.producer] == home_of[edge.consumer]
        else edge
        for edge in graph.edges
    )
    joined = JobGraph(graph.vertices, edges, ())
    taking = set(into.values())
    regions = [
        finish(_merge(joined, region.name, home_of, first=_first(graph, region.name, homes)))
        if region.name in taking
        else region
        for region in graph.regions
        if region.name not in into
    ]
    return JoinedGraph(replace(joined, regions=sort_regions(regions)), into)


def find_idle(
    graph: JobGraph, into: Mapping[str, str], tolerant: Collection[str], ended: Collection[str] = ()
) -> tuple[str, ...]:
    """The regions that have nothing to do and nothing to wait for, in topological order.

    Their work is done inside other regions, and all regions before them have ended, or are such regions, too: who waits
    for them would wait for nothing.

    Args:
        graph: as declared.
        into: as in `JoinedGraph`.
        tolerant: regions that can do without the regions that they read from.
        ended: regions whose tasks are over, as are those of all regions before them.
    """
    idle: dict[str, None] = {}
    for region in graph.regions:
        readers = [other.name for other in graph.regions if region in graph.producer_regions(other)]
        waits = any(producer.name not in {*idle, *ended} for producer in graph.producer_regions(region))
        if region.name in into and region.name not in ended and not waits and all(name in tolerant for name in readers):
            idle[region.name] = None
    return tuple(idle)


def _find_homes(graph: JobGraph, inside: Collection[JobEdge]) -> dict[str, str]:
    """For every region the last one of those that it is joined with."""
    names = [region.name for region in graph.regions]
    number = {vertex: index for index, region in enumerate(graph.regions) for vertex in region.vertices}
    component = compute_components(len(names), ((number[edge.producer], number[edge.consumer]) for edge in inside))
    last = dict(zip(component, names, strict=True))
    return {name: last[group] for name, group in zip(names, component, strict=True)}


def _check_no_cycle(graph: JobGraph, home_of: Mapping[str, str]) -> None:
    names = sorted(set(home_of.values()))
    number = {name: index for index, name in enumerate(names)}
    successors: list[set[int]] = [set() for _ in names]
    for edge in graph.edges:
        producer, consumer = number[home_of[edge.producer]], number[home_of[edge.consumer]]
        if producer != consumer:
            successors[producer].add(consumer)
    strong = compute_strong_components([sorted(targets) for targets in successors])
    circle = [name for name, group in zip(names, strong, strict=True) if strong.count(group) > 1]
    if circle:
        raise InvalidValueError(
            f"joined along these edges, {', '.join(circle)} would wait for each other; expected groups of regions "
            "without a way out of a group and back into it"
        )


def _as_inner(edge: JobEdge, written: bool) -> JobEdge:
    return replace(edge, pipelined=True, durable=True) if written else replace(edge, pipelined=True)


def _first(graph: JobGraph, home: str, homes: Mapping[str, str]) -> Region:
    return next(region for region in graph.regions if homes[region.name] == home)


def _merge(graph: JobGraph, name: str, home_of: Mapping[str, str], *, first: Region) -> Region:
    """One region of all vertices that are at home in `name`, which runs in as many subtasks as `first`."""
    members = {vertex for vertex, home in home_of.items() if home == name}
    read = [edge for edge in graph.edges if edge.consumer in members]
    return replace(
        first,
        name=name,
        vertices=tuple(vertex.name for vertex in graph.vertices if vertex.name in members),
        inputs=tuple(edge for edge in read if edge.producer not in members),
        inner=tuple(edge for edge in read if edge.producer in members),
    )
