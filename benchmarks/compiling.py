"""Seconds of what `plan` does on a warm server, for each workload: session, compiling, storing."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.datasets import make_tables
from benchmarks.workloads import WORKLOADS, Workload
from tests.job_runner import JobRun, plan_run, program_of

ROUNDS = 5
NO_CONF: Mapping[str, str] = {}


def run() -> list[dict[str, float | str]]:
    """One row per workload; the first round, which warms up, is left out."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=EmbeddedSettings(idle_seconds=600))
            return [_measure(endpoint, folder, workload) for workload in WORKLOADS.values()]
        finally:
            stop_embedded_server(folder / "spark")


def _measure(endpoint: Any, folder: Path, workload: Workload) -> dict[str, float | str]:
    data = make_tables(folder, workload, 0.01)
    seconds = []
    for number in range(ROUNDS + 1):
        started = time.monotonic()
        plan_workload(endpoint, folder, workload, data, f"{workload.name}-{number}")
        seconds.append(time.monotonic() - started)
    middle = statistics.median(seconds[1:])
    regions = len(workload.steps)
    return {
        "workload": workload.name,
        "regions": regions,
        "seconds": round(middle, 2),
        "per_region": round(middle / regions, 3),
    }


def plan_workload(
    endpoint: Any,
    folder: Path,
    workload: Workload,
    data: Path,
    run_id: str,
    spark_conf: Mapping[str, str] = NO_CONF,
    **options: Any,
) -> JobRun:
    """What the `plan` task does, in this process; `spark_conf` is that of every step."""
    vertices = [
        JobVertex(step.name, has_source=bool(step.source), has_sink=step is workload.last) for step in workload.steps
    ]
    edges = [
        JobEdge(edge.step, step.name, name, Partitioning.HASH if edge.keys else Partitioning.BROADCAST, edge.keys)
        for step in workload.steps
        for name, edge in step.inputs.items()
    ]
    programs = [
        program_of(
            step.name,
            step.transform,
            {},
            Files(str(data / step.source)) if step.source else None,
            Files(str(folder / "out")) if step is workload.last else None,
            spark_conf=spark_conf,
        )
        for step in workload.steps
    ]
    return plan_run(endpoint, folder / "exchange", vertices, edges, programs, run_id=run_id, **options)
