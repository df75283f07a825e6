"""What fusing saves on a small day and costs on a larger one: a chain of three regions, as three and as one.

On the Spark side only: Airflow's tasks are the same either way.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.target_bytes import write_events
from tests.job_runner import plan_run, program_of

MIB = 1024 * 1024
ROWS = (200_000, 800_000, 3_200_000, 12_800_000)  # 7 to some 450 MB of Parquet
ROUNDS = 3


def run() -> list[dict[str, int | float]]:
    """One row per size: medians of wall and CPU seconds of three regions, and how they are to those of one."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-") as name:
        folder = Path(name)
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory="4g", idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            server = psutil.Process(embedded_status(folder / "spark").jvm_pid)
            return [_compare(endpoint, server, folder, rows) for rows in ROWS]
        finally:
            stop_embedded_server(folder / "spark")


def _compare(endpoint: Any, server: psutil.Process, folder: Path, rows: int) -> dict[str, int | float]:
    write_events(folder / f"events-{rows}", rows)
    size = sum(file.stat().st_size for file in (folder / f"events-{rows}").iterdir())
    samples = [
        _measure(endpoint, server, folder, rows, durability=durability, run_id=f"{rows}-{turn}-{durability}")
        for turn in range(ROUNDS + 1)
        for durability in ("always", "auto")
    ][2:]  # the first turn warms the server
    (apart, apart_cpu), (fused, fused_cpu) = (
        [statistics.median(each[unit] for each in samples[way::2]) for unit in (0, 1)] for way in (0, 1)
    )
    return {
        "source_mb": round(size / MIB),
        "seconds": round(apart, 1),
        "fused_seconds": round(fused, 1),
        "ratio": round(fused / apart, 2),
        "cpu_seconds": round(apart_cpu, 1),
        "fused_cpu_seconds": round(fused_cpu, 1),
        "cpu_ratio": round(fused_cpu / apart_cpu, 2),
    }


def _measure(endpoint: Any, server: psutil.Process, folder: Path, rows: int, **options: Any) -> tuple[float, float]:
    job = plan_run(
        endpoint,
        folder / "exchange",
        [JobVertex("events", has_source=True), JobVertex("totals"), JobVertex("spread", has_sink=True)],
        [
            JobEdge("events", "totals", "events", Partitioning.HASH, ("customer_id",)),
            JobEdge("totals", "spread", "totals", Partitioning.HASH, ("bucket",)),
        ],
        [
            program_of("events", None, {}, Files(str(folder / f"events-{rows}"))),
            program_of("totals", total, {}),
            program_of("spread", spread, {}, sink=Files(str(folder / "out" / str(options["run_id"])))),
        ],
        target_bytes=128 * MIB,
        max_parallelism=128,
        slots=os.cpu_count(),
        durability_budget=0.0,
        failures_per_run=0.0,
        failures_per_day=0.0,
        **options,
    )
    cpu, started = sum(server.cpu_times()[:2]), time.monotonic()
    for region in job.plan.regions:
        asyncio.run(job.run_region(region.name))
    job.commit()
    return time.monotonic() - started, sum(server.cpu_times()[:2]) - cpu


def total(events: Any) -> Any:
    from pyspark.sql import functions as sf

    return events.groupBy("customer_id", (sf.col("id") % 50).alias("bucket")).agg(
        sf.sum("amount").alias("spend"), sf.max("note").alias("last")
    )


def spread(totals: Any) -> Any:
    from pyspark.sql import functions as sf

    return totals.groupBy("bucket").agg(sf.sum("spend").alias("spend"), sf.count("*").alias("customers"))
