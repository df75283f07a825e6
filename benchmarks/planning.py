"""Seconds of `plan` on a warm server by the number of vertices, and what it asks of Spark: requests and CPU."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from benchmarks.cpu_time import read_processes, seconds_by_part
from tests.job_runner import plan_run, program_of

ROUNDS = 3
CHAINS = (10, 30, 40)
DIMENSIONS = 7
WRITTEN: Mapping[str, Mapping[str, Any]] = {
    "auto": {"durability": "auto"},
    "always": {"durability": "always", "chaining": True},
    "every edge": {"durability": "always"},
}
Job = tuple[list[JobVertex], list[JobEdge], list[VertexProgram]]


def run() -> list[dict[str, float | str]]:
    """One row for each job, and what is written of it; the first round, which warms up, is left out."""
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        jobs = {f"chain of {length}": chain(folder, length) for length in CHAINS}
        jobs[f"star of {DIMENSIONS} joins"] = star(folder, DIMENSIONS)
        try:
            endpoint = ensure_embedded_server(folder / "spark", settings=EmbeddedSettings(idle_seconds=600))
            return [_measure(endpoint, folder, what, job, written) for what, job in jobs.items() for written in WRITTEN]
        finally:
            stop_embedded_server(folder / "spark")


def _measure(endpoint: Any, folder: Path, what: str, job: Job, written: str) -> dict[str, float | str]:
    seconds, cpu = [], []
    for number in range(ROUNDS + 1):
        run_id = f"{what}-{written}-{number}".replace(" ", "-")
        with _counted() as requests:
            used, started = _server_cpu(folder), time.monotonic()
            plan_run(endpoint, folder / "exchange", *job, run_id=run_id, **WRITTEN[written])
            seconds.append(time.monotonic() - started)
            cpu.append(_server_cpu(folder) - used)
    return {
        "job": what,
        "vertices": len(job[0]),
        "written": written,
        "seconds": round(statistics.median(seconds[1:]), 2),
        "spark_cpu": round(statistics.median(cpu[1:]), 2),
        **{kind: requests[kind] for kind in ("explain", "schema", "config")},
        "requests_per_vertex": round(requests.total() / len(job[0]), 1),
    }


def _server_cpu(folder: Path) -> float:
    """CPU seconds of the server so far."""
    keeper = embedded_status(folder / "spark").keeper_pid
    return sum(seconds_by_part(read_processes(), keeper, {}).values()) if keeper else 0.0


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """The requests for analysis and settings, by kind, that pyspark's clients send inside of the block."""
    from pyspark.sql.connect.client import SparkConnectClient

    counts = Counter[str]()
    analyse, configure = SparkConnectClient._analyze, SparkConnectClient.config

    def _analyze(self: Any, method: str, **kwargs: Any) -> Any:
        counts[method] += 1
        return analyse(self, method, **kwargs)

    def config(self: Any, operation: Any) -> Any:
        counts["config"] += 1
        return configure(self, operation)

    SparkConnectClient._analyze, SparkConnectClient.config = _analyze, config
    try:
        yield counts
    finally:
        SparkConnectClient._analyze, SparkConnectClient.config = analyse, configure


def chain(folder: Path, length: int) -> Job:
    """Vertices that each read the one before: two that map its rows, then one that groups them, and so on."""
    facts = _table(folder, "facts", "range AS id, range % 97 AS key, range % 11 AS kind, range * 0.5 AS value", 40_000)
    names = [f"step_{number}" for number in range(length)]
    vertices = [JobVertex(name, has_source=name == names[0], has_sink=name == names[-1]) for name in names]
    edges = [JobEdge(before, name, "rows", Partitioning.INFERRED) for before, name in pairwise(names)]
    transforms = [_map, _keep, _group]
    programs = [
        program_of(
            name,
            transforms[number % 3],
            {},
            Files(facts) if not number else None,
            Files(str(folder / "out")) if name == names[-1] else None,
        )
        for number, name in enumerate(names)
    ]
    return vertices, edges, programs


def star(folder: Path, joins: int) -> Job:
    """A table of facts that is joined with one dimension after the other, each from a vertex of its own."""
    facts = _table(folder, "facts", "range AS id, range % 97 AS key, range % 11 AS kind, range * 0.5 AS value", 40_000)
    vertices, programs, edges = [JobVertex("facts", has_source=True)], [program_of("facts", _map, {}, Files(facts))], []
    for number in range(joins):
        name = f"dimension_{number}"
        path = _table(folder, name, f"range AS key, 'name ' || range AS name_{number}, range % 3 AS more", 97)
        before = f"joined_{number - 1}" if number else "facts"
        last = number == joins - 1
        vertices += [JobVertex(name, has_source=True), JobVertex(f"joined_{number}", has_sink=last)]
        edges += [
            JobEdge(before, f"joined_{number}", "rows", Partitioning.INFERRED),
            JobEdge(name, f"joined_{number}", "dimension", Partitioning.INFERRED),
        ]
        sink = Files(str(folder / "star")) if last else None
        programs += [
            program_of(name, _keep_key, {}, Files(path)),
            program_of(f"joined_{number}", _join, {}, None, sink),
        ]
    return vertices, edges, programs


def _table(folder: Path, name: str, columns: str, rows: int) -> str:
    path = folder / f"{name}.parquet"
    duckdb.sql(f"SELECT {columns} FROM range({rows})").write_parquet(str(path))  # noqa: S608
    return str(path)


def _map(rows: Any) -> Any:
    from pyspark.sql import functions

    return rows.withColumn("value", functions.col("value") + 1)


def _keep(rows: Any) -> Any:
    return rows.where("kind <> 3")


def _keep_key(rows: Any) -> Any:
    return rows.drop("more").where("key >= 0")


def _group(rows: Any) -> Any:
    from pyspark.sql import functions

    return rows.groupBy("id", "key", "kind").agg(functions.sum("value").alias("value"))


def _join(rows: Any, dimension: Any) -> Any:
    return rows.join(dimension, "key")
