"""Which regions run again after a failure: the failed one, producers of what was lost, readers of what is made anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.explain import Decision, format_count
from airflow_abs.core.regions import compute_pipelined_regions
from airflow_abs.core.result_types import ResultType


@dataclass(frozen=True, slots=True)
class ResultPartition:
    """What one vertex produced for another."""

    producer: str
    consumer: str
    result_type: ResultType

    @property
    def name(self) -> tuple[str, str]:
        """Producer and consumer."""
        return self.producer, self.consumer


@dataclass(frozen=True, slots=True)
class RestartedRegion:
    """One region that runs again, and why."""

    vertices: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class FailoverDecision(Decision):
    """All regions to restart, the failed one first."""

    failed: str
    lost: tuple[tuple[str, str], ...]
    unavailable: tuple[tuple[str, str], ...]
    regions: tuple[RestartedRegion, ...]

    @property
    def vertices(self) -> tuple[str, ...]:
        """All vertices to restart, sorted."""
        return tuple(sorted(vertex for region in self.regions for vertex in region.vertices))

    def describe(self) -> str:
        """One line per region."""
        return "\n".join(f"restart {', '.join(region.vertices)}: {region.reason}" for region in self.regions)


class FailoverStrategy:
    """Regions of a graph and the partitions between them. Keeps no memory of past failures.

    Raises:
        JobGraphError: a vertex is given twice, or a partition names an unknown one.
    """

    def __init__(self, vertices: Sequence[str], partitions: Iterable[ResultPartition]) -> None:
        self._partitions = tuple(partitions)
        self._regions = compute_pipelined_regions(
            vertices, [(p.producer, p.consumer, p.result_type.must_be_pipelined) for p in self._partitions]
        )
        self._region_of = {vertex: region for region in self._regions for vertex in region}
        self._consumed: dict[str, list[ResultPartition]] = {vertex: [] for vertex in vertices}
        self._produced: dict[str, list[ResultPartition]] = {vertex: [] for vertex in vertices}
        for partition in self._partitions:
            self._consumed[partition.consumer].append(partition)
            self._produced[partition.producer].append(partition)

    def decide(
        self,
        failed: str,
        *,
        lost: Collection[tuple[str, str]] = (),
        unavailable: Collection[tuple[str, str]] = (),
    ) -> FailoverDecision:
        """Decide what restarts.

        A region that restarts needs its inputs: a producer of an input that is not available restarts as well. What a
        restarting region makes may come out differently: all its consumers restart.

        Args:
            failed: the vertex that failed.
            lost: partitions, as (producer, consumer), that the failure itself says it could not read.
            unavailable: partitions that are known to be gone.

        Raises:
            InvalidValueError: the vertex is unknown.
        """
        if failed not in self._region_of:
            raise InvalidValueError(f"expected a vertex of this graph, found {failed!r}")
        gone = {*lost, *unavailable}
        first = self._region_of[failed]
        reasons = {first: f"{failed} failed"}
        waiting = deque([first])
        while waiting:
            region = waiting.popleft()
            for vertex in region:
                for partition in self._consumed[vertex]:
                    if partition.name in gone or not partition.result_type.survives_consumer_failure:
                        self._add(partition.producer, f"{vertex} needs its result again", reasons, waiting)
                for partition in self._produced[vertex]:
                    self._add(partition.consumer, f"reads from {vertex}, which runs again", reasons, waiting)
        return FailoverDecision(
            rule="pipelined_regions",
            reason=f"{failed} failed: {format_count(len(reasons), 'region')} of {len(self._regions)} run again",
            failed=failed,
            lost=tuple(sorted(lost)),
            unavailable=tuple(sorted(unavailable)),
            regions=tuple(RestartedRegion(region, reason) for region, reason in reasons.items()),
        )

    def _add(
        self,
        vertex: str,
        reason: str,
        reasons: dict[tuple[str, ...], str],
        waiting: deque[tuple[str, ...]],
    ) -> None:
        region = self._region_of[vertex]
        if region not in reasons:
            reasons[region] = reason
            waiting.append(region)
