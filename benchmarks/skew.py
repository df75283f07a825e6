"""How even the fan-out is: the largest over the mean bytes of a step's subtasks, on even and on skewed keys; and on a
hot key the largest over the mean seconds."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path

import duckdb

from airflow_abs.core.wording import format_count
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.compiling import plan_workload
from benchmarks.datasets import make_tables
from benchmarks.workloads import HOT_KEY, WORKLOADS, Workload

SCALE = 0.1
TARGET_BYTES = 256 * 1024
SUBPARTITIONS = 128


NO_BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "-1"}

ONE_AND_FIVE = ("hot_key", "null_key")
"""Workloads of which the large table is tried as one file, and as five: as many subtasks write the skewed edge."""

TIMED_SCALE, TIMED_TARGET, ROUNDS = 2.0, 8 * 1024 * 1024, 3
"""Of the hot key whose subtasks are timed: 12 million sales in five files, so that a subtask works for seconds."""


def run() -> list[dict[str, float | str]]:
    """One row per step that reads by hash; the target is small, so that the fan-out is wide. In this process, without
    Airflow: sizes and decisions are the same. `seconds` are those of the subtask that took longest, over the mean."""
    rows: list[dict[str, float | str]] = []
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=EmbeddedSettings(idle_seconds=600))
            for workload in WORKLOADS.values():
                data = make_tables(folder, workload, SCALE, TARGET_BYTES)
                for files in (1, 5) if workload.name in ONE_AND_FIVE else (0,):
                    if files:
                        _cut(data / workload.steps[0].source, files)
                    rows += _measure(endpoint, folder, workload, data, files)
            rows += [_time(endpoint, folder)]
        finally:
            stop_embedded_server(folder / "spark")
    return rows


def _measure(
    endpoint: ConnectEndpoint, folder: Path, workload: Workload, data: Path, files: int
) -> list[dict[str, float | str]]:
    options = {"max_parallelism": SUBPARTITIONS, "target_bytes": TARGET_BYTES, "slots": None}
    job = plan_workload(endpoint, folder, workload, data, f"{workload.name}-{files}", **options)
    for step in workload.steps[:-1]:
        asyncio.run(job.run_region(step.name))
    job.decide(workload.last.name)
    return [
        {
            "workload": f"{workload.name}, {format_count(files, 'file')}" if files else workload.name,
            "step": step.name,
            "subtasks": job.decisions[step.name].parallelism,
            "largest/mean": round(job.decisions[step.name].max_over_mean, 2),
            "seconds": "",
        }
        for step in workload.steps
        if step.inputs
    ]


def _time(endpoint: ConnectEndpoint, folder: Path) -> dict[str, float | str]:
    """The median of some runs; two subtasks at once, as on two slots. The customers would be small enough to broadcast,
    and then no key is hot."""
    data = make_tables(folder, HOT_KEY, TIMED_SCALE)
    _cut(data / str(HOT_KEY.steps[0].source), 5)
    found = []
    for number in range(ROUNDS):
        options = {"max_parallelism": SUBPARTITIONS, "target_bytes": TIMED_TARGET, "slots": 1}
        job = plan_workload(endpoint, folder, HOT_KEY, data, f"timed-{number}", NO_BROADCAST, **options)
        for step in HOT_KEY.steps[:-1]:
            asyncio.run(job.run_region(step.name))
        seconds = [float(report["seconds"]) for report in job.reports["enriched"]]
        found.append(max(seconds) * len(seconds) / sum(seconds))
    decision = job.decisions["enriched"]
    return {
        "workload": f"hot_key, five files, scale {TIMED_SCALE:g}",
        "step": "enriched",
        "subtasks": decision.parallelism,
        "largest/mean": round(decision.max_over_mean, 2),
        "seconds": round(statistics.median(found), 2),
    }


def _cut(table: Path, files: int) -> None:
    """The same rows in so many files of about the same size."""
    before = sorted(map(str, table.glob("*.parquet")))
    with duckdb.connect() as connection:
        numbered = f"SELECT *, row_number() OVER () % {files} AS file FROM read_parquet({before})"  # noqa: S608
        connection.execute(f"CREATE TABLE numbered AS {numbered}")
        for each in before:
            Path(each).unlink()
        for number in range(files):
            rows = f"SELECT * EXCLUDE file FROM numbered WHERE file = {number}"  # noqa: S608
            connection.execute(f"COPY ({rows}) TO '{table}/part-{number}.parquet' (FORMAT parquet)")
