"""`prune=` of a source: the column of another vertex whose values its rows must have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WHOLE = ("byte", "short", "integer", "long")
_ORDERED = ("date", "timestamp", "timestamp_ntz", "string")


@dataclass(frozen=True, slots=True)
class VertexColumn:
    """A column of what a vertex of the job returns; made by `AdaptiveSparkOperator.column()`."""

    vertex: str
    column: str

    def __str__(self) -> str:
        return f"{self.vertex}.{self.column}"


@dataclass(frozen=True, slots=True)
class PrunedBy:
    """What a planned source is pruned by: `column` of it must have one of the values that `values` has in the rows of
    `input`, one of its region's inputs."""

    column: str
    input: str
    values: VertexColumn


def check_prune(who: str, given: Mapping[str, Any]) -> dict[str, VertexColumn]:
    """The argument as an author gives it, or as JSON has it.

    Raises:
        ValueError: it is no mapping from columns to columns of vertices.
    """
    try:
        found = {
            name: value if isinstance(value, VertexColumn) else VertexColumn(**value)
            for name, value in dict(given).items()
        }
    except (TypeError, ValueError):
        found = {"": VertexColumn("", "")}
    if not all(isinstance(name, str) and name for name in found):
        raise ValueError(
            f"{who}: prune is {given!r}; expected columns of the source, each with the column of a vertex whose values "
            "it must have, such as {'sold_date': dates.column('d')}"
        )
    return found


def pruning_kind(kind: Any) -> str | None:
    """How values of a type are compared, from Spark's JSON of the type; None for types that nothing is pruned by.

    Columns of one kind can be compared: whole numbers of any width, all else with the same type only.
    """
    if kind in _WHOLE:
        return "integer"
    return kind if isinstance(kind, str) and (kind in _ORDERED or kind.startswith("decimal(")) else None
