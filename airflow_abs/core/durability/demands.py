"""Why what a region wrote has to be durable, whatever that costs."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from airflow_abs.core.durability.prediction import JobHistory, Prediction
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.wording import format_bytes


@dataclass(frozen=True, slots=True)
class DeclaredDemands:
    """What the author declared for vertices, by name, without their edges.

    Args:
        nondeterministic: other rows come when they run again on the same input.
        ordered: other tasks of the DAG come after them.
        joins: declared with `join=`, so that a hot key may be spread over several subtasks.
    """

    nondeterministic: Collection[str] = ()
    ordered: Collection[str] = ()
    joins: Collection[str] = ()


def find_declared(graph: JobGraph, declared: DeclaredDemands) -> dict[str, str]:
    """Reasons by name of the region, as far as they are known when a DAG file is parsed."""
    return {region.name: why for region in graph.regions if (why := next(_declared(graph, region, declared), None))}


def check_kept_inside(graph: JobGraph, declared: DeclaredDemands) -> None:
    """Whether every `durable=False` can be kept.

    Raises:
        JobGraphError: names the edge, and what demands that it is durable.
    """
    demands = find_declared(graph, declared)
    for edge in graph.edges:
        if edge.prunes and not graph.crosses_regions(edge):
            raise JobGraphError(
                f"vertex {edge.consumer!r}: its source is pruned by {edge.producer}.{edge.prunes[1]}, and both run as "
                f"one region, so the values are not known in advance; make the edges between {edge.producer} and "
                f"{edge.consumer} blocking, or prune by another vertex"
            )
        if edge.durable is not None and not graph.crosses_regions(edge):
            raise JobGraphError(
                f"{edge}: durable={edge.durable} has no effect: both vertices are in one region, whose rows stay "
                "inside Spark; drop durable, or forward() and pipelined=True"
            )
        producer, consumer = graph.region_of(edge.producer), graph.region_of(edge.consumer)
        fixed = next((each for each in (producer, consumer) if each.parallelism is not None), None)
        why = demands.get(producer.name) or (fixed and f"{fixed.name} has a parallelism of its own")
        if edge.durable is False and why:
            raise JobGraphError(f"{edge}: durable=False is not possible: {why}; drop one of them")


def _declared(graph: JobGraph, region: Region, declared: DeclaredDemands) -> Iterator[str]:
    for vertex in region.vertices:
        if graph.vertex(vertex).has_sink:
            yield f"{vertex} has a sink"
        if graph.vertex(vertex).expectations:
            yield f"{vertex} has expectations: its readers do not run on rows that fail them"
        if vertex in declared.nondeterministic:
            yield f"{vertex} returns different rows when it reruns, and its readers need the first ones"
        if vertex in declared.ordered:
            yield f"another task comes after {vertex}"
    for edge in _outputs(graph, region):
        if edge.prunes:
            yield f"the source of {edge.consumer} is pruned by its values"
        elif edge.durable:
            yield f"durable=True on the edge to {edge.consumer}"


@dataclass(frozen=True, slots=True)
class DaysDemands:
    """What is known on the day alone; `target_bytes` is what one subtask should read."""

    predictions: Mapping[str, Prediction]
    target_bytes: int
    min_parallelism: int
    history: JobHistory = field(default_factory=JobHistory)


def find_demands(graph: JobGraph, declared: DeclaredDemands, day: DaysDemands) -> dict[str, str]:
    """Reasons by name of the region; what was declared comes first."""
    found = find_declared(graph, declared)
    for region in graph.regions:
        if day.min_parallelism > 1:
            found.setdefault(region.name, f"min_parallelism {day.min_parallelism} asks for more than one subtask")
        for edge in _outputs(graph, region):
            size = day.predictions[region.name].result_bytes
            if edge.consumer in declared.joins and edge.partitioning is Partitioning.HASH and size > day.target_bytes:
                found.setdefault(
                    region.name,
                    f"{edge.consumer} is declared with join=, and a hot key in {format_bytes(size)} may have to be "
                    "split",
                )
    return found


def _outputs(graph: JobGraph, region: Region) -> list[JobEdge]:
    return [edge for edge in graph.edges if edge.producer in region.vertices and edge.consumer not in region.vertices]
