"""`prune=` of a source as a DAG declares it: columns of vertices, and the edges that it stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.pruned_by import VertexColumn


def column_of(vertex: Any, name: str, declared: Iterable[Any]) -> VertexColumn:
    """A column of a vertex (an `AdaptiveSparkOperator`), which is one of those `declared` in the open job.

    Raises:
        JobGraphError: it is not; by its name alone, a vertex of the open job would be taken for it.
    """
    if not any(each is vertex for each in declared):
        raise JobGraphError(
            f"vertex {vertex.task_id!r}: its column {name!r} is asked for outside of its job; expected inside, for a "
            "source of the same job; elsewhere read that job's sink with Files(...), and prune by that vertex"
        )
    return VertexColumn(vertex.task_id, name)


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
    """A kind of table of the user's may not have it."""
    return getattr(declared, "prune", {})
