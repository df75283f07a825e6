"""Vertices of regions that are joined on the day: put together from their plans, which are compiled and proved already.

No transform is called again: a second call costs what the first one did, and could give another plan than was proved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_abs.core.graph.job_graph import JobEdge, JobGraph
from airflow_abs.spark.compile.vertices import CompiledVertex, is_materialised
from airflow_abs.spark.template import find_placeholders, inline, inlined_name


def join_vertices(graph: JobGraph, compiled: Mapping[str, CompiledVertex]) -> dict[str, CompiledVertex]:
    """The vertices as a graph with joined regions has them.

    An input that no longer crosses regions is the producer's own plan, or its result in the region if it has several
    readers.

    Args:
        graph: after joining; the same vertices and inputs, in fewer regions.
        compiled: as the graph before has them.
    """
    edges = {name: edge for vertex in compiled.values() for name, edge in vertex.inputs.items()}
    joined: dict[str, CompiledVertex] = {}
    for vertex in graph.vertices:  # producers first
        own = compiled[vertex.name]
        # Those of the vertices whose plans are part of its own, too.
        passed_on = {
            name: joined[edges[name].producer]
            for name in find_placeholders(own.relation)
            if name in edges and _is_passed_on(graph, edges[name])
        }
        inlined = {alias: name for producer in passed_on.values() for alias, name in producer.inlined.items()}
        inside = {name: edge for name, edge in own.inputs.items() if not graph.crosses_regions(edge)}
        joined[vertex.name] = replace(
            own,
            relation=inline(own.relation, {name: producer.relation for name, producer in passed_on.items()})
            if passed_on
            else own.relation,
            inlined=inlined | {inlined_name(name): producer.name for name, producer in passed_on.items()},
            inputs={name: edge for name, edge in own.inputs.items() if name not in inside},
            local={
                **own.local,
                **{name: edge.producer for name, edge in inside.items() if not _is_passed_on(graph, edge)},
            },
        )
    return joined


def _is_passed_on(graph: JobGraph, edge: JobEdge) -> bool:
    return not graph.crosses_regions(edge) and not is_materialised(graph, edge.producer)
