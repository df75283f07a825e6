"""CPU of the exchange against Spark's own shuffle: the same rows, scanned, distributed, and read to the end."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from airflow_abs.core.decide.ranges import IndexRange, cut_by_bytes, split_by_count
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.records.manifest import ResultFile, ResultManifest, files_for_range, read_manifest
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id, release_session
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.relations import read_result, write_files
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.target_bytes import ROWS, write_events
from tests.job_runner import JobRun, plan_run, program_of

SUBPARTITIONS = 128
READERS = 8
ROUNDS = 3
EDGES = (Partitioning.HASH, Partitioning.REBALANCE, Partitioning.RESCALE)
BY_KEY, IN_TURN = "inline shuffle by key", "inline shuffle in turn"


def run(rows: int = ROWS) -> list[dict[str, float | str]]:
    """CPU seconds, medians of all rounds: of Spark's shuffles, and of each edge its write, its reads, and both."""
    with bench_of_edges(rows, "4g") as (endpoint, folder, server):
        samples = [_round(endpoint, folder, server, number) for number in range(ROUNDS + 1)]
    seconds = {key: statistics.median(sample[key] for sample in samples[1:]) for key in samples[0]}
    for edge in EDGES:
        seconds[f"{edge}: write and all reads"] = seconds[f"{edge}: write"] + seconds[f"{edge}: all reads"]
    inline = seconds[BY_KEY]
    return [
        {"what": key, "cpu_seconds": round(value, 1), "over_inline": round(value / inline, 2)}
        for key, value in seconds.items()
    ]


@contextmanager
def bench_of_edges(rows: int, memory: str) -> Iterator[tuple[Any, Path, psutil.Process]]:
    """A server with so much memory, a folder with `rows` events, and the server's process."""
    with bench_server(memory) as (endpoint, folder, server):
        write_events(folder / "events", rows)
        yield endpoint, folder, server


@contextmanager
def bench_server(memory: str) -> Iterator[tuple[Any, Path, psutil.Process]]:
    """A server with so much memory, an empty folder beside it, and the server's process."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        settings = EmbeddedSettings(cores=os.cpu_count() or 1, driver_memory=memory, idle_seconds=600)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=settings)
            yield endpoint, folder, psutil.Process(embedded_status(folder / "spark").jvm_pid)
        finally:
            stop_embedded_server(folder / "spark")


def _round(endpoint: Any, folder: Path, server: psutil.Process, number: int) -> dict[str, float]:
    """The first round warms the server up."""
    found = {
        BY_KEY: cpu_of(server, lambda: _shuffle_inline(endpoint, folder, "customer_id")),
        IN_TURN: cpu_of(server, lambda: _shuffle_inline(endpoint, folder)),
    }
    for edge in EDGES:
        job = plan_edge(endpoint, folder, f"round-{number}-{edge}", edge, READERS)
        found[f"{edge}: write"] = cpu_of(server, partial(write_edge, job))
        found[f"{edge}: all reads"] = cpu_of(server, partial(read_edge, endpoint, job, edge, READERS))
    return found


def write_edge(job: JobRun) -> None:
    asyncio.run(job.run_region("events"))


def read_edge(endpoint: Any, job: JobRun, edge: Partitioning, readers: int) -> None:
    asyncio.run(_read_all(endpoint, job, edge, readers))


def cpu_of(server: psutil.Process, work: Callable[[], object]) -> float:
    before = sum(server.cpu_times()[:2])
    work()
    return float(sum(server.cpu_times()[:2]) - before)


def plan_edge(endpoint: Any, folder: Path, run_id: str, edge: Partitioning, readers: int) -> JobRun:
    """Its rows are sorted if the rule says so for so many readers."""
    keys = ("customer_id",) if edge is Partitioning.HASH else ()
    return plan_run(
        endpoint,
        folder / "exchange",
        [JobVertex("events", has_source=True), JobVertex("reader", readers, has_sink=True)],
        [JobEdge("events", "reader", "events", edge, keys)],
        [
            program_of("events", None, {}, Files(str(folder / "events"))),
            program_of("reader", None, {}, sink=Files(str(folder / "out"))),
        ],
        max_parallelism=SUBPARTITIONS,
        target_bytes=4 * 1024**3,
        slots=os.cpu_count(),
        run_id=run_id,
    )


def _shuffle_inline(endpoint: Any, folder: Path, *keys: str) -> None:
    with open_session(endpoint) as session:
        rows = session.read.parquet(str(folder / "events")).repartition(SUBPARTITIONS, *keys)
        rows.write.format("noop").mode("overwrite").save()


async def _read_all(endpoint: Any, job: JobRun, edge: Partitioning, readers: int) -> None:
    """As so many subtasks would, each its range of subpartitions or its files, the rows going nowhere."""
    count = job.decisions["events"].parallelism
    manifests = [read_manifest(job.folder, "events", index) for index in range(count)]
    results = [next(iter(manifest.results.values())) for manifest in manifests]
    session = derive_id("exchange benchmark", job.folder.run_id, readers)
    async with open_connection(endpoint) as connection:
        for number, (span, files) in enumerate(_reads(results, edge, readers)):
            paths = [uri_for_spark(job.folder.file_path(file.path)) for file in files]
            schema, numbered = results[0].schema, edge is not Partitioning.RESCALE
            relation = read_result(paths, schema=schema, numbered=numbered, subpartitions=span)
            await _write_nowhere(connection, relation, session, number)
        await release_session(connection, session)


def _reads(
    results: Sequence[ResultManifest], edge: Partitioning, readers: int
) -> list[tuple[IndexRange | None, Sequence[ResultFile]]]:
    """Of each reader: its subpartitions, and the files that it opens."""
    if edge is Partitioning.RESCALE:
        written = [file for result in results for file in result.files]
        spans = cut_by_bytes([file.bytes for file in written], min(readers, len(written)))
        return [(None, written[span.start : span.stop]) for span in spans]
    return [(span, files_for_range(results, span)) for span in split_by_count(SUBPARTITIONS, readers)]


async def _write_nowhere(connection: Connection, relation: Any, session: str, number: int) -> None:
    plan = write_files(relation, "", file_format="noop", options={})
    plan.command.write_operation.ClearField("path")
    await execute_operation(connection, Operation(session, derive_id(session, number), plan.SerializeToString()))
