"""How many subtasks each vertex may run at once with the slots that are free.

Vertices of one slot sharing group put a subtask each into the same slot: a group needs as many slots as its widest
vertex has subtasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.decide.decision import Decision
from airflow_abs.core.decide.parallelism import power_of_two_from
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.wording import format_count

_LEAST_MAX_PARALLELISM, _MOST_MAX_PARALLELISM = 128, 32768


@dataclass(frozen=True, slots=True)
class VertexDemand:
    """Fewest subtasks that a vertex can run with, and how many it wants."""

    vertex: str
    min_parallelism: int
    parallelism: int

    def __post_init__(self) -> None:
        check_int(f"min_parallelism of {self.vertex!r}", self.min_parallelism, at_least=1, at_most=self.parallelism)


@dataclass(frozen=True, slots=True)
class _GroupDemand:
    """Fewest and most slots that a group can use."""

    vertices: Sequence[VertexDemand]
    lower: int
    upper: int

    @classmethod
    def of(cls, vertices: Sequence[VertexDemand]) -> _GroupDemand:
        if not vertices:
            raise InvalidValueError("slot sharing group: expected at least one vertex, found none")
        lower = max(demand.min_parallelism for demand in vertices)
        return cls(vertices, lower, max(demand.parallelism for demand in vertices))


def count_required_slots(groups: Mapping[str, Sequence[VertexDemand]]) -> int:
    """Slots with which every vertex gets the parallelism that it wants."""
    return sum(_GroupDemand.of(vertices).upper for vertices in groups.values())


@dataclass(frozen=True, slots=True)
class SlotDecision(Decision):
    """Parallelism by vertex; None if not even the minima fit."""

    parallelism: Mapping[str, int] | None
    free_slots: int
    minimum_slots: int
    required_slots: int


def decide_slot_parallelism(groups: Mapping[str, Sequence[VertexDemand]], free_slots: int) -> SlotDecision:
    """Parallelism of every vertex with these slots.

    The groups that can use least beyond their minimum are served first; each may take an equal share of what is left
    after the minima of all groups still to be served.
    """
    check_int("free_slots", free_slots, at_least=0)
    demands = sorted((_GroupDemand.of(v) for v in groups.values()), key=lambda demand: demand.upper - demand.lower)
    minimum, required = sum(demand.lower for demand in demands), count_required_slots(groups)
    granted = _grant(demands, free_slots) if minimum <= free_slots else None
    parallelism = granted and {v.vertex: granted[v.vertex] for vertices in groups.values() for v in vertices}
    reason = f"{format_count(free_slots, 'slot')} free; {required} would serve all, at least {minimum} are needed"
    return SlotDecision("slot_sharing", reason, parallelism, free_slots, minimum, required)


def _grant(demands: Sequence[_GroupDemand], free_slots: int) -> dict[str, int]:
    """Serve the groups in the given order; the minima of all of them fit."""
    reserved = sum(demand.lower for demand in demands)
    granted: dict[str, int] = {}
    for served, demand in enumerate(demands):
        share = (free_slots - reserved) // (len(demands) - served)
        slots = demand.lower + min(demand.upper - demand.lower, share)
        free_slots -= slots
        reserved -= demand.lower
        granted.update({vertex.vertex: min(vertex.parallelism, slots) for vertex in demand.vertices})
    return granted


def default_max_parallelism(parallelism: int) -> int:
    """Maximum for a vertex that only has a parallelism: 1.5 times it as a power of two, within 128..32768."""
    check_int("parallelism", parallelism, at_least=1, at_most=_MOST_MAX_PARALLELISM)
    wanted = power_of_two_from(parallelism + parallelism // 2)
    return min(max(wanted, _LEAST_MAX_PARALLELISM), _MOST_MAX_PARALLELISM)


@dataclass(frozen=True, slots=True)
class ReactiveParallelism:
    """In reactive mode a vertex takes all it can get: its parallelism is its maximum."""

    max_parallelism: int

    @classmethod
    def of(cls, parallelism: int, max_parallelism: int | None) -> ReactiveParallelism:
        """Maximum as given, else derived from the parallelism."""
        return cls(max_parallelism or default_max_parallelism(parallelism))

    @property
    def parallelism(self) -> int:
        """The adjusted parallelism."""
        return self.max_parallelism

    def can_raise_max_to(self, wanted: int) -> bool:
        """Data written for a maximum cannot be distributed to fewer."""
        return self.max_parallelism <= wanted <= _MOST_MAX_PARALLELISM
