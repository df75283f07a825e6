"""A subtask reads its range from the exchange, not the files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import psutil
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

ROWS = 1_000_000
SUBTASKS = 8


def count_rows(events: Any) -> Any:
    from pyspark.sql import functions as sf

    return events.select(sf.hash("payload").alias("h")).agg(sf.count("h").alias("rows"), sf.sum("h").alias("sum"))


@pytest.fixture
def run(connect_server: ConnectEndpoint, tmp_path: Path) -> JobRun:
    """Events are in the exchange, some 60 MB in 128 subpartitions; `counted` will read them in eight subtasks."""
    query = f"SELECT range AS id, md5(range::VARCHAR) || md5((range + 1)::VARCHAR) AS payload FROM range({ROWS})"
    duckdb.sql(f"COPY ({query}) TO '{tmp_path}/events.parquet' (FORMAT parquet)")
    run = plan_run(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("events", has_source=True), JobVertex("counted", has_sink=True, parallelism=SUBTASKS)],
        [JobEdge("events", "counted", "events", Partitioning.HASH, ("id",))],
        [
            program_of("events", None, {}, Files(f"{tmp_path}/events.parquet")),
            program_of("counted", count_rows, {}, sink=Files(f"{tmp_path}/out"), per_subtask=True),
        ],
        max_parallelism=128,
    )
    asyncio.run(run.run_region("events"))
    return run


def bytes_read_by(server: psutil.Process) -> int:
    """Bytes that the server's reads returned so far, also those that the page cache answered."""
    return int(server.io_counters().read_chars)


def test_one_of_eight_subtasks_reads_less_than_a_fifth_of_the_files(
    run: JobRun, connect_server: ConnectEndpoint
) -> None:
    (server,) = (
        psutil.Process(connection.pid)
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == connect_server.port
    )
    files = sum(
        file.bytes for result in read_manifests(run.folder, "events", 1)[0].results.values() for file in result.files
    )
    stored = run.decide("counted")
    assert stored.decision.parallelism == SUBTASKS
    run_one = lambda index: asyncio.run(run.run_subtask("counted", index))  # noqa: E731
    run_one(0)  # loads the classes that a first read needs
    before = bytes_read_by(server)
    run_one(3)
    read = bytes_read_by(server) - before
    assert files / 16 < read < files / 5, f"read {read:,} of {files:,} bytes"
