"""The rows of a source that is pruned: those whose column has a value that another vertex has found, and no others.

The transform is given the source after a semi-join with the values. So its rows do not depend on what `decide` leaves
out, on the layout of files, or on what is known of them; NULL equals nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.sources.files import SOURCE
from airflow_abs.exchange.sources.planned_source import PlannedSource
from airflow_abs.exchange.sources.pruned_by import PrunedBy, VertexColumn, pruning_kind

_VALUE = "__pruning_value"


def keep_values(vertex: str, source: PlannedSource, edges: Iterable[JobEdge], frames: dict[str, Any]) -> PlannedSource:
    """Let a vertex see of its source only rows with the values that edges bring, which it does not see themselves.

    Args:
        vertex: its name.
        source: as it was declared.
        edges: of the vertex; those that bring no such values are passed over.
        frames: its DataFrames by name, changed in place.

    Raises:
        JobGraphError: a column is not there, or the two are of types that files cannot be left out by.
    """
    pruned_by = list(source.pruned_by)
    for edge in edges:
        if edge.prunes is None:
            continue
        column, values_column = edge.prunes
        values = frames.pop(edge.input_name)
        by = VertexColumn(edge.producer, values_column)
        _check(vertex, frames[SOURCE], column, values, by)
        wanted = values.select(values[quote(values_column)].alias(_VALUE))
        rows = frames[SOURCE]
        frames[SOURCE] = rows.join(wanted, rows[quote(column)] == wanted[_VALUE], "left_semi")
        pruned_by.append(PrunedBy(column, f"{vertex}.{edge.input_name}", by))
    return replace(source, pruned_by=tuple(pruned_by))


def _check(vertex: str, rows: Any, column: str, values: Any, by: VertexColumn) -> None:
    for whose, frame, name in (("its source", rows, column), (f"vertex {by.vertex!r}", values, by.column)):
        if name not in frame.columns:
            raise JobGraphError(
                f"vertex {vertex!r}: prune= names column {name!r} of {whose}, which has {', '.join(frame.columns)}; "
                "name one of these"
            )
    one, other = rows.schema[column], values.schema[by.column]
    kind = pruning_kind(one.dataType.jsonValue())
    collated = any("__COLLATIONS" in field.jsonValue()["metadata"] for field in (one, other))
    if kind is None or kind != pruning_kind(other.dataType.jsonValue()) or collated:
        raise JobGraphError(
            f"vertex {vertex!r}: prune= compares {column!r} of its source ({one.dataType.simpleString()}) with {by} "
            f"({other.dataType.simpleString()}); expected integers, or one type of date, timestamp, decimal and "
            f"string: cast {by.column!r} in the transform of {by.vertex!r}, or filter in that of {vertex!r}"
        )
