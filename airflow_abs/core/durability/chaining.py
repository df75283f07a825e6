"""Steps that read one other step row by row run in its subtasks, so that no row is written only to be read once.

They are Flink's operator chains. Flink chains what is connected by forward edges; here `plan` finds out which edges
could be forward: those that it inferred as rescale, because the consumer takes its rows however they are distributed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass

from airflow_abs.core.durability.demands import DeclaredDemands, find_declared
from airflow_abs.core.durability.rule import EdgeDurability
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, Region
from airflow_abs.core.graph.joining import JoinedGraph, chain_regions
from airflow_abs.core.graph.partitioning import Partitioning


@dataclass(frozen=True, slots=True)
class Chains:
    """A graph whose regions are chained, and for each edge that is no longer written the reason."""

    joined: JoinedGraph
    edges: tuple[EdgeDurability, ...]


def chain_row_by_row(
    graph: JobGraph, declared: DeclaredDemands, kept: Collection[str], settings: Mapping[str, Hashable]
) -> Chains:
    """Chain every consumer that reads one producer row by row and is the only one that reads it.

    An edge that the author declared stays as declared: `rescale()` ends a chain, and so does a parallelism,
    `durable=True`, or whatever else demands that the producer's rows are there.

    Args:
        graph: after inference.
        declared: what the author said of vertices; behind a declared join, subtasks may share a key.
        kept: vertices whose rows are not to be read inside Spark: people look into them, or they see their subtask.
        settings: what a region's task and session run with; regions of unequal settings stay apart.
    """
    demanded = find_declared(graph, declared).keys()
    apart = {graph.region_of(vertex).name for vertex in {*kept, *declared.joins}}

    def bounds(region: Region) -> set[int | None]:
        return {graph.vertex(name).max_parallelism for name in region.vertices}

    def is_chained(edge: JobEdge) -> bool:
        producer, consumer = graph.region_of(edge.producer), graph.region_of(edge.consumer)
        return (
            edge.inferred
            and edge.partitioning is Partitioning.RESCALE
            and graph.crosses_regions(edge)
            and graph.outputs_of(edge.producer) == (edge,)
            and _reads_only(graph, consumer, edge)
            and producer.name not in demanded
            and apart.isdisjoint({producer.name, consumer.name})
            and _is_free(producer)
            and _is_free(consumer)
            and bounds(producer) == bounds(consumer)
            and settings.get(producer.name) == settings.get(consumer.name)
        )

    chained = [edge for edge in graph.edges if is_chained(edge)]
    reasons = tuple(
        EdgeDurability(
            each,
            False,
            f"chained: {each.consumer} reads {each.producer} row by row and is its only reader, so it runs in the "
            "same subtasks; chaining=False writes the rows",
        )
        for each in chained
    )
    return Chains(chain_regions(graph, chained), reasons)


def _reads_only(graph: JobGraph, consumer: Region, edge: JobEdge) -> bool:
    return consumer.inputs == (edge,) and not any(graph.vertex(name).has_source for name in consumer.vertices)


def _is_free(region: Region) -> bool:
    """Whether bytes alone say how many subtasks it gets."""
    return region.parallelism is None and region.single_subtask_reason is None
