"""Whether running work should be stopped and started again because its parallelism could change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from airflow_abs.core.checks import check_int
from airflow_abs.core.errors import InvalidValueError


class RescaleController(Protocol):
    """Compares what runs with what could run."""

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether the change, given as parallelism by vertex, is worth a restart."""


@dataclass(frozen=True, slots=True)
class EnforceMinimalIncrease:
    """Any vertex that must shrink, or one that grows by at least so much; small steps of several do not add up."""

    min_increase: int = 1

    def __post_init__(self) -> None:
        check_int("min_increase", self.min_increase, at_least=1)

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether the change is worth a restart."""
        return any(change < 0 or change >= self.min_increase for change in _changes(current, possible))


@dataclass(frozen=True, slots=True)
class EnforceParallelismChange:
    """Any change at all."""

    def should_rescale(self, current: Mapping[str, int], possible: Mapping[str, int]) -> bool:
        """Whether anything changes."""
        return any(_changes(current, possible))


def _changes(current: Mapping[str, int], possible: Mapping[str, int]) -> list[int]:
    missing = sorted(current.keys() - possible.keys())
    if missing:
        raise InvalidValueError(
            f"possible parallelism: expected one of every vertex, found none of {', '.join(missing)}"
        )
    return [possible[vertex] - parallelism for vertex, parallelism in current.items()]
