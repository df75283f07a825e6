# ruff: noqa: S608 - the SQL is put together from our own numbers
"""What a target size costs on the Spark side: one join and aggregate over the same exchange data, cut ever finer.

Airflow's own cost comes on top, once for each subtask; `docs/how-it-decides.md` puts the two together.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
import psutil

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.job_runner import JobRun, plan_run, program_of

MIB = 1024 * 1024
TARGETS = (16 * MIB, 64 * MIB, 128 * MIB, 256 * MIB, 1024 * MIB)
ROWS = 12_000_000  # some 500 MB in the exchange
FILES = 4
ROUNDS = 3


def run() -> list[dict[str, int | float]]:
    """One row per target: subtasks, and medians of wall and CPU seconds of the vertex over all rounds."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-") as name:
        folder = Path(name)
        write_events(folder / "events")
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory="4g", idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            job = plan(endpoint, folder)
            asyncio.run(job.run_region("events"))
            server = psutil.Process(embedded_status(folder / "spark").jvm_pid)
            samples = [measure(job, server, target, attempt) for attempt in range(1, ROUNDS + 1) for target in TARGETS]
        finally:
            stop_embedded_server(folder / "spark")
    return [summarise([sample for sample in samples if sample["target_mb"] * MIB == target]) for target in TARGETS]


def write_events(folder: Path, rows: int = ROWS) -> None:
    folder.mkdir()
    for part in range(FILES):
        start, stop = part * rows // FILES, (part + 1) * rows // FILES
        query = f"""SELECT range AS id, (hash(range) % 1000000)::INT AS customer_id, md5(range::VARCHAR) AS note,
                           ((hash(range * 7) % 100000) / 100)::DECIMAL(12,2) AS amount FROM range({start}, {stop})"""
        duckdb.sql(f"COPY ({query}) TO '{folder}/part-{part}.parquet' (FORMAT parquet)")


def total(events: Any) -> Any:
    from pyspark.sql import functions as sf

    return events.groupBy("customer_id").agg(sf.sum("amount").alias("spend"), sf.max("note").alias("last"))


def plan(endpoint: Any, folder: Path) -> JobRun:
    return plan_run(
        endpoint,
        folder / "exchange",
        [JobVertex("events", has_source=True), JobVertex("totals", has_sink=True)],
        [JobEdge("events", "totals", "events", Partitioning.HASH, ("customer_id",))],
        [
            program_of("events", None, {}, Files(str(folder / "events"))),
            program_of("totals", total, {}, sink=Files(str(folder / "out"))),
        ],
        max_parallelism=128,
        slots=os.cpu_count(),
    )


def measure(job: JobRun, server: psutil.Process, target: int, attempt: int) -> dict[str, int | float]:
    """Run the vertex once with this target."""
    job.plan = dataclasses.replace(job.plan, options=dataclasses.replace(job.plan.options, target_bytes=target))
    cpu, started = sum(server.cpu_times()[:2]), time.monotonic()
    asyncio.run(job.run_region("totals", attempt=attempt))
    return {
        "target_mb": target // MIB,
        "subtasks": job.decisions["totals"].parallelism,
        "seconds": time.monotonic() - started,
        "cpu_seconds": sum(server.cpu_times()[:2]) - cpu,
    }


def summarise(samples: list[dict[str, int | float]]) -> dict[str, int | float]:
    middle = {name: statistics.median(sample[name] for sample in samples) for name in samples[0]}
    return {
        name: int(value) if name in ("target_mb", "subtasks") else round(value, 1) for name, value in middle.items()
    }
