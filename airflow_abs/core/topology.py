"""The graph of single subtasks: who consumes which group of partitions, and which region each subtask is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from airflow_abs.core.blocks import DistributionPattern
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.regions import compute_pipelined_regions
from airflow_abs.core.result_types import ResultType
from airflow_abs.core.subpartition_ranges import pointwise_partitions

SubtaskRegion = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionGroup:
    """Partitions (one of each producer) that some consumers read together."""

    producers: tuple[str, ...]
    consumers: tuple[str, ...]
    result_type: ResultType


@dataclass(frozen=True, slots=True)
class VertexEdge:
    """An edge between vertices of a job, to be expanded into groups of partitions of their subtasks."""

    producer: str
    consumer: str
    pattern: DistributionPattern
    result_type: ResultType


class Topology:
    """Subtasks, their edges and their pipelined regions. Does not change.

    Args:
        vertices: subtasks in topological order.
        groups: all edges, as groups of partitions.
    """

    def __init__(self, vertices: Sequence[str], groups: Iterable[PartitionGroup]) -> None:
        self.vertices = tuple(vertices)
        self.groups = tuple(groups)
        self.regions: tuple[SubtaskRegion, ...] = compute_pipelined_regions(
            self.vertices,
            [
                (producer, consumer, group.result_type.must_be_pipelined)
                for group in self.groups
                for producer in group.producers
                for consumer in group.consumers
            ],
        )
        self.region_of = {vertex: region for region in self.regions for vertex in region}
        self.consumed: dict[SubtaskRegion, tuple[PartitionGroup, ...]] = self._group_by_region(produced=False)
        self.produced: dict[SubtaskRegion, tuple[PartitionGroup, ...]] = self._group_by_region(produced=True)

    @classmethod
    def expand(cls, parallelism: Mapping[str, int], edges: Iterable[VertexEdge]) -> Topology:
        """Subtasks `<vertex>_<index>` of vertices with known parallelism."""
        vertices = [f"{vertex}_{index}" for vertex, count in parallelism.items() for index in range(count)]
        return cls(vertices, [group for edge in edges for group in expand_edge(edge, parallelism)])

    def _group_by_region(self, *, produced: bool) -> dict[SubtaskRegion, tuple[PartitionGroup, ...]]:
        found: dict[SubtaskRegion, dict[PartitionGroup, None]] = {region: {} for region in self.regions}
        for group in self.groups:
            for vertex in group.producers if produced else group.consumers:
                found[self.region_of[vertex]][group] = None
        return {region: tuple(groups) for region, groups in found.items()}


def expand_edge(edge: VertexEdge, parallelism: Mapping[str, int]) -> list[PartitionGroup]:
    """Groups of partitions of one edge: a single one if it is all-to-all.

    Raises:
        JobGraphError: the parallelism of an end is not known.
    """
    for vertex in (edge.producer, edge.consumer):
        if vertex not in parallelism:
            raise JobGraphError(f"edge {edge.producer!r} -> {edge.consumer!r}: {vertex!r} is none of the vertices")
    producers = [f"{edge.producer}_{index}" for index in range(parallelism[edge.producer])]
    consumers = [f"{edge.consumer}_{index}" for index in range(parallelism[edge.consumer])]
    if edge.pattern is DistributionPattern.ALL_TO_ALL:
        return [PartitionGroup(tuple(producers), tuple(consumers), edge.result_type)]
    sharing: dict[tuple[str, ...], list[str]] = {}
    for consumer, span in zip(consumers, pointwise_partitions(len(producers), len(consumers)), strict=True):
        sharing.setdefault(tuple(producers[span.start : span.stop]), []).append(consumer)
    return [PartitionGroup(group, tuple(readers), edge.result_type) for group, readers in sharing.items()]
