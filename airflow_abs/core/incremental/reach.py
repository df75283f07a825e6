"""Which sinks the files of a source reach, and whether what it reads once can be published there."""

from __future__ import annotations

from collections.abc import Mapping

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph

_KEEPS_OTHERS = ("append", "error")


def sinks_after(graph: JobGraph, vertex: str) -> tuple[str, ...]:
    """The vertices with a sink that rest on the vertex' rows, itself included; in the order of the graph."""
    reached, waiting = {vertex}, [vertex]
    while waiting:
        for edge in graph.outputs_of(waiting.pop()):
            if edge.consumer not in reached:
                reached.add(edge.consumer)
                waiting.append(edge.consumer)
    return tuple(each.name for each in graph.vertices if each.name in reached and each.has_sink)


def check_incremental_source(graph: JobGraph, vertex: str, modes: Mapping[str, str]) -> None:
    """What a run makes of files that no later run reads stays where it is published.

    Args:
        graph: of the job.
        vertex: it has an incremental source.
        modes: by vertex with a sink, the sink's.

    Raises:
        JobGraphError: nothing is published, or a later run would replace it.
    """
    sinks = sinks_after(graph, vertex)
    if not sinks:
        raise JobGraphError(
            f"vertex {vertex!r}: its source is incremental, and no sink comes after it; files count as read once "
            "output made from them is published: give it, or a vertex after it, a sink with mode='append'"
        )
    for sink in sinks:
        if modes[sink] not in _KEEPS_OTHERS:
            raise JobGraphError(
                f"vertex {sink!r}: the mode of its sink is {modes[sink]!r}, and it depends on the incremental source "
                f"of {vertex!r}: a run would replace output of files that are never read again. Use mode='append', "
                "where a repeated run replaces only its own rows"
            )
