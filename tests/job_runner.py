"""Runs a whole job as Airflow would (plan, decide, run, commit), in one process and without Airflow.

Everything below the operators is the real thing: real compiler, real Spark, real exchange. It is what
`airflow_abs.testing` gives authors, with the graph declared by hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb

from airflow_abs.core.durability.prediction import NO_HISTORY, JobHistory
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.settings import JobSettings, VertexOptions
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.tables.source import Given
from airflow_abs.testing import job_run
from tests.replayed import assert_replayed

OPTIONS = JobSettings(
    target_bytes=64 * 1024 * 1024,
    max_parallelism=32,
    durability="always",
    share_tasks=False,
    chaining=False,
    hot_keys=False,
    slots=64,  # more than any fan-out here: no waves to fill, and inputs keep their Spark partitions
)


def rows(query: str) -> list[tuple[Any, ...]]:
    """All rows that DuckDB finds, in an order of their own, so that two queries compare."""
    return sorted(duckdb.sql(query).fetchall(), key=repr)


@dataclass(slots=True)
class JobRun(job_run.JobRun):
    """One run of one job; whatever happened until its end, every decision can be replayed."""

    def commit(self) -> None:
        job_run.JobRun.commit(self)
        assert_replayed(self.folder)


def program_of(
    name: str,
    transform: Callable[..., Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    source: Given | None = None,
    sink: Files | TargetTable | None = None,
    **declared: Any,
) -> VertexProgram:
    """A vertex that nobody declared in a DAG: `declared` are fields of `DeclaredVertex` and of `VertexOptions`."""
    of_vertex = {key: declared.pop(key) for key in ("sql", "expectations", "is_awaited", "task") if key in declared}
    vertex = DeclaredVertex(name, transform_kwargs=kwargs or {}, options=VertexOptions(**declared), **of_vertex)
    return VertexProgram(vertex, transform, source, sink)


def run_job(
    endpoint: ConnectEndpoint,
    root: Path,
    vertices: Iterable[JobVertex],
    edges: Iterable[JobEdge],
    programs: Iterable[VertexProgram],
    **options: Any,
) -> JobRun:
    """Run everything once; `options` replace those of `OPTIONS`."""
    run = plan_run(endpoint, root, vertices, edges, programs, **options)
    for region in run.plan.regions:
        asyncio.run(run.run_region(region.name))
    run.commit()
    return run


def plan_run(
    endpoint: ConnectEndpoint,
    root: Path,
    vertices: Iterable[JobVertex],
    edges: Iterable[JobEdge],
    programs: Iterable[VertexProgram],
    *,
    run_id: str = "run",
    history: JobHistory = NO_HISTORY,
    **options: Any,
) -> JobRun:
    """Only the plan task's part."""
    chosen = replace(OPTIONS, **options)
    graph = build_job_graph(
        list(vertices), edges, chosen.max_parallelism, equal_ranges=chosen.strategy == "power_of_two"
    )
    folder = JobFolder(root, "dag", run_id, "job")
    return JobRun.planned(endpoint, folder, graph, {program.name: program for program in programs}, chosen, history)
