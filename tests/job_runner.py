"""Runs a whole job as Airflow would (plan, decide, run, commit), in one process and without Airflow.

Everything below the operators is the real thing: real compiler, real Spark, real exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.sinks import publish_sink
from airflow_abs.exchange.records.decisions import StoredDecision, decide_and_store, read_decision
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.records.reports import report
from airflow_abs.spark.compile.planning import plan_job
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.run.subtask import SubtaskAttempt, run_subtask
from tests.replayed import assert_replayed

OPTIONS: Mapping[str, Any] = {
    "target_bytes": 64 * 1024 * 1024,
    "min_parallelism": 1,
    "max_parallelism": 32,
    "default_source_parallelism": None,
    "strategy": "balanced",
    "slots": 64,  # more than any fan-out here: no waves to fill, and inputs keep their Spark partitions
}


@dataclass(slots=True)
class JobRun:
    """One run of one job; `reports` are what the subtasks of each region would push as XCom."""

    endpoint: ConnectEndpoint
    folder: JobFolder
    graph: JobGraph
    plan: JobPlan
    reports: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: dict[str, RegionDecision] = field(default_factory=dict)

    def decide(self, region: str) -> StoredDecision:
        producers = {entry.region for entry in self.plan.region(region).inputs}
        reports = {name: self.reports[name] for name in sorted(producers)}
        stored = decide_and_store(self.folder, self.plan, region, reports, Path)
        self.decisions[region] = stored.decision
        return stored

    async def run_region(self, region: str, attempt: int = 1) -> None:
        stored = self.decide(region)
        count = stored.decision.parallelism
        async with open_connection(self.endpoint) as connection:
            attempts = [SubtaskAttempt(region, index, attempt, stored.digest) for index in range(count)]
            manifests = await asyncio.gather(*(run_subtask(connection, self.folder, entry) for entry in attempts))
        self.reports[region] = [report(manifest, count) for manifest in manifests]

    async def run_subtask(self, region: str, index: int, attempt: int = 1) -> None:
        """Run one subtask of a region that is decided."""
        entry = SubtaskAttempt(region, index, attempt, read_decision(self.folder, region).digest)
        async with open_connection(self.endpoint) as connection:
            await run_subtask(connection, self.folder, entry)

    def commit(self) -> None:
        """Publish the sinks; whatever happened until now, every decision can be replayed."""
        for region in self.plan.regions:
            for sink in region.sinks:
                publish_sink(self.folder, region.name, sink, Path)
        assert_replayed(self.folder)


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
    **options: Any,
) -> JobRun:
    """Only the plan task's part."""
    chosen = {**OPTIONS, **options}
    graph = build_job_graph(list(vertices), edges, chosen["max_parallelism"])
    folder = JobFolder(root, "dag", options.get("run_id", "run"), "job")
    with open_session(endpoint) as session:
        plan = plan_job(session, folder, graph, {program.name: program for program in programs}, chosen, Path)
    return JobRun(endpoint, folder, graph, plan)
