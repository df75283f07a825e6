"""How even the fan-out is: the largest over the mean bytes of a step's subtasks, on even and on skewed keys."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.compiling import plan_workload
from benchmarks.datasets import make_tables
from benchmarks.workloads import WORKLOADS

SCALE = 0.1
TARGET_BYTES = 256 * 1024
SUBPARTITIONS = 128


def run() -> list[dict[str, float | str]]:
    """One row per step that reads by hash; the target is small, so that the fan-out is wide. In this process, without
    Airflow: sizes and decisions are the same."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=EmbeddedSettings(idle_seconds=600))
            for workload in WORKLOADS.values():
                data = make_tables(folder, workload, SCALE, TARGET_BYTES)
                options = {"max_parallelism": SUBPARTITIONS, "target_bytes": TARGET_BYTES, "slots": None}
                job = plan_workload(endpoint, folder, workload, data, workload.name, **options)
                for step in workload.steps[:-1]:
                    asyncio.run(job.run_region(step.name))
                job.decide(workload.last.name)
                rows += [
                    {
                        "workload": workload.name,
                        "step": step.name,
                        "subtasks": job.decisions[step.name].parallelism,
                        "largest/mean": round(job.decisions[step.name].max_over_mean, 2),
                    }
                    for step in workload.steps
                    if step.inputs
                ]
        finally:
            stop_embedded_server(folder / "spark")
    return rows
