"""The edges that `prune=` of a source stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.pruned_by import VertexColumn


def pruning_edges(vertex: str, source: Any, sink: Any) -> list[JobEdge]:
    """One for each column that the source of a vertex is pruned by: all of the values for every subtask, as files that
    are there before the vertex is decided.

    Raises:
        JobGraphError: the sink has what only a source can have.
    """
    if _prune_of(sink):
        raise JobGraphError(
            f"vertex {vertex!r}: its sink is declared with prune=, which only a source can have; drop it from the sink"
        )
    return [
        JobEdge(
            values.vertex,
            vertex,
            f"prune.{column}",
            Partitioning.BROADCAST,
            durable=True,
            prunes=(column, values.column),
        )
        for column, values in _prune_of(source).items()
    ]


def _prune_of(declared: Any) -> Mapping[str, VertexColumn]:
    """A kind of table of somebody else's may not have it."""
    return getattr(declared, "prune", {})
