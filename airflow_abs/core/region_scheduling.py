"""Which regions may start when: events in, regions to start out.

A region starts once, when everything that it reads from outside can be consumed. A blocking partition can when its
producer has finished; any other that need not be pipelined when the producer's region has started.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.topology import PartitionGroup, SubtaskRegion, Topology


class RegionScheduler:
    """Follows finished subtasks and tells which regions to start next. Each answer is in topological order."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._started: set[SubtaskRegion] = set()
        self._finished: set[str] = set()

    @property
    def started_regions(self) -> tuple[SubtaskRegion, ...]:
        """Regions started so far and not reset since, in topological order."""
        return tuple(region for region in self._topology.regions if region in self._started)

    @property
    def cross_region_groups(self) -> tuple[PartitionGroup, ...]:
        """Groups of partitions that a region reads although it produces only some of them itself."""
        return tuple(
            group
            for group in self._topology.groups
            if not group.result_type.must_be_pipelined and self._is_cross_region(group)
        )

    def start(self) -> tuple[SubtaskRegion, ...]:
        """Regions that wait for nobody."""
        return self._start_ready(self._topology.regions)

    def finish(self, vertex: str) -> tuple[SubtaskRegion, ...]:
        """A subtask has finished, its partitions are complete: regions that this sets free.

        Raises:
            InvalidValueError: the subtask is unknown.
        """
        self._finished.add(self._known(vertex))
        return self._start_ready(self._readers_of(self._topology.region_of[vertex]))

    def restart(self, vertices: Iterable[str]) -> tuple[SubtaskRegion, ...]:
        """Subtasks were reset, with all they had produced: those of their regions that may start at once."""
        regions = {self._topology.region_of[self._known(vertex)] for vertex in vertices}
        self._started -= regions
        self._finished -= {vertex for region in regions for vertex in region}
        return self._start_ready(regions)

    def _known(self, vertex: str) -> str:
        if vertex not in self._topology.region_of:
            raise InvalidValueError(f"expected a subtask of this topology, found {vertex!r}")
        return vertex

    def _start_ready(self, candidates: Iterable[SubtaskRegion]) -> tuple[SubtaskRegion, ...]:
        """Start candidates that can, then whoever these set free by having started."""
        started: list[SubtaskRegion] = []
        waiting = set(candidates)
        while waiting:
            ready = [
                region for region in self._in_order(waiting) if region not in self._started and self._can_start(region)
            ]
            self._started.update(ready)
            started.extend(ready)
            waiting = {reader for region in ready for reader in self._readers_of(region)} - self._started
        return tuple(started)

    def _in_order(self, regions: set[SubtaskRegion]) -> Sequence[SubtaskRegion]:
        return [region for region in self._topology.regions if region in regions]

    def _can_start(self, region: SubtaskRegion) -> bool:
        return all(
            producer in self._finished
            if group.result_type.is_blocking
            else self._topology.region_of[producer] in self._started
            for group in self._topology.consumed[region]
            for producer in group.producers
            if self._topology.region_of[producer] != region
        )

    def _readers_of(self, region: SubtaskRegion) -> set[SubtaskRegion]:
        return {
            self._topology.region_of[consumer]
            for group in self._topology.produced[region]
            for consumer in group.consumers
        } - {region}

    def _is_cross_region(self, group: PartitionGroup) -> bool:
        region_of = self._topology.region_of
        producing = {region_of[vertex] for vertex in group.producers}
        return len(producing) > 1 and any(region_of[vertex] in producing for vertex in group.consumers)
