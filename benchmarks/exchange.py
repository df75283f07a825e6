"""CPU of the exchange against Spark's own shuffle: the same rows, scanned, moved by key, and read to the end."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, release_session
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.relations import read_result, write_files
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.target_bytes import write_events
from tests.job_runner import JobRun, plan_run

SUBPARTITIONS = 128
READERS = 8
ROUNDS = 3


def run() -> list[dict[str, float | str]]:
    """A row each for the shuffle, the write, all range reads, and write plus reads; medians of all rounds."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        write_events(folder / "events")
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory="4g", idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            server = psutil.Process(embedded_status(folder / "spark").jvm_pid)
            samples = [_round(endpoint, folder, server, number) for number in range(ROUNDS + 1)]
        finally:
            stop_embedded_server(folder / "spark")
    seconds = {key: statistics.median(sample[key] for sample in samples[1:]) for key in samples[0]}
    seconds["write and all reads"] = seconds["exchange write"] + seconds["all range reads"]
    inline = seconds["inline shuffle"]
    return [
        {"what": key, "cpu_seconds": round(value, 1), "over_inline": round(value / inline, 2)}
        for key, value in seconds.items()
    ]


def _round(endpoint: Any, folder: Path, server: psutil.Process, number: int) -> dict[str, float]:
    """The first round warms the server up."""
    job = _plan(endpoint, folder, f"round-{number}")
    return {
        "inline shuffle": _cpu(server, lambda: _shuffle_inline(endpoint, folder)),
        "exchange write": _cpu(server, lambda: asyncio.run(job.run_region("events"))),
        "all range reads": _cpu(server, lambda: asyncio.run(_read_ranges(endpoint, job))),
    }


def _cpu(server: psutil.Process, work: Callable[[], object]) -> float:
    before = sum(server.cpu_times()[:2])
    work()
    return float(sum(server.cpu_times()[:2]) - before)


def _plan(endpoint: Any, folder: Path, run_id: str) -> JobRun:
    return plan_run(
        endpoint,
        folder / "exchange",
        [JobVertex("events", has_source=True), JobVertex("reader", has_sink=True)],
        [JobEdge("events", "reader", "events", Partitioning.HASH, ("customer_id",))],
        [
            VertexProgram("events", None, {}, Files(str(folder / "events"))),
            VertexProgram("reader", None, {}, sink=Files(str(folder / "out"))),
        ],
        max_parallelism=SUBPARTITIONS,
        target_bytes=4 * 1024**3,
        slots=os.cpu_count(),
        run_id=run_id,
    )


def _shuffle_inline(endpoint: Any, folder: Path) -> None:
    with open_session(endpoint) as session:
        rows = session.read.parquet(str(folder / "events")).repartition(SUBPARTITIONS, "customer_id")
        rows.write.format("noop").mode("overwrite").save()


async def _read_ranges(endpoint: Any, job: JobRun) -> None:
    """As eight subtasks would, each its sixteen subpartitions, the rows going nowhere."""
    from airflow_abs.core.decide.ranges import IndexRange
    from airflow_abs.exchange.records.manifest import files_for_range, read_manifest
    from airflow_abs.exchange.records.paths import uri_for_spark

    count = job.decisions["events"].parallelism
    manifests = [read_manifest(job.folder, "events", index) for index in range(count)]
    results = [next(iter(manifest.results.values())) for manifest in manifests]
    async with open_connection(endpoint) as connection:
        for start in range(0, SUBPARTITIONS, SUBPARTITIONS // READERS):
            span = IndexRange(start, start + SUBPARTITIONS // READERS)
            paths = [uri_for_spark(job.folder.file_path(file.path)) for file in files_for_range(results, span)]
            relation = read_result(paths, schema=results[0].schema, numbered=True, subpartitions=span)
            await _write_nowhere(connection, relation, job.folder.run_id, start)


async def _write_nowhere(connection: Connection, relation: Any, run_id: str, number: int) -> None:
    plan = write_files(relation, "", file_format="noop", options={})
    plan.command.write_operation.ClearField("path")
    session = derive_id("exchange benchmark", run_id)
    await execute_operation(connection, Operation(session, derive_id(session, number), plan.SerializeToString()))
    if number == SUBPARTITIONS - SUBPARTITIONS // READERS:
        await release_session(connection, session)
