"""The records of a job's vertices: what each declares, and what only their job knows of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex, digest_declaration
from airflow_abs.operators.adaptive_spark import AdaptiveSparkOperator
from airflow_abs.task_groups.task_arguments import OF_SINKS


def declare_vertices(
    graph: JobGraph, declared: Mapping[str, AdaptiveSparkOperator], spark_conf: Mapping[str, Any]
) -> list[DeclaredVertex]:
    """One record for each vertex, in the order of the graph.

    Args:
        graph: of the job.
        declared: by vertex.
        spark_conf: the job's.

    Raises:
        JobGraphError: two vertices of a region, which is one Spark session, have different settings.
    """
    tasks = _number_tasks(declared)
    records = [
        replace(
            vertex.to_declared(),
            options=replace(vertex.options, spark_conf=_merge_conf(graph, declared, vertex, spark_conf)),
            is_awaited=vertex.is_awaited or any(vertex in other.comes_after for other in declared.values()),
            task=tasks[vertex.task_id],
        )
        for vertex in (declared[each.name] for each in graph.vertices)
    ]
    return [replace(record, declaration=digest_declaration(record, graph.edges)) for record in records]


def _merge_conf(
    graph: JobGraph,
    declared: Mapping[str, AdaptiveSparkOperator],
    vertex: AdaptiveSparkOperator,
    of_job: Mapping[str, Any],
) -> dict[str, str]:
    own = vertex.options.spark_conf
    for name in graph.region_of(vertex.task_id).vertices:
        other = declared[name].options.spark_conf
        if other != own:
            raise JobGraphError(
                f"vertex {vertex.task_id!r}: its spark_conf {own} differs from that of vertex "
                f"{name!r} ({other}), and they run in one Spark session; set the same on both"
            )
    return {**of_job, **own}


def _number_tasks(declared: Mapping[str, AdaptiveSparkOperator]) -> dict[str, int]:
    """A number for each vertex; those with the same one have the same Airflow arguments, and may be one task.

    A time limit that is set on a vertex is for that step alone.
    """
    seen: list[dict[str, Any]] = []
    numbers = {}
    for name, vertex in declared.items():
        own = {key: value for key, value in vertex.task_kwargs.items() if key not in OF_SINKS}
        if "execution_timeout" in own:
            own["execution_timeout"] = name
        if own not in seen:
            seen.append(own)
        numbers[name] = seen.index(own)
    return numbers
