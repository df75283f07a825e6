"""Rows of an edge are right whether or not they are sorted, and however many subtasks come to read them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest

from airflow_abs.cli.commands.explain import explain_run
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.job_runner import JobRun, plan_run, program_of, rows

pytestmark = pytest.mark.spark

EVENTS = "SELECT range AS id, range * 7 % 5003 AS customer, range % 100 AS amount FROM range(60000)"


def total(events: Any) -> Any:
    from pyspark.sql import functions as sf

    return events.groupBy("customer").agg(sf.sum("amount").alias("spend"), sf.count("id").alias("events"))


def plan(server: ConnectEndpoint, root: Path, source: Path, readers: int | None) -> JobRun:
    return plan_run(
        server,
        root / "exchange",
        [JobVertex("events", has_source=True), JobVertex("totals", readers, has_sink=True)],
        [JobEdge("events", "totals", "events", Partitioning.HASH, ("customer",))],
        [
            program_of("events", None, {}, Files(str(source)), edge_columns="all"),  # one row each, no partial sums
            program_of("totals", total, {}, sink=Files(str(root / "out"))),
        ],
        run_id="planned",
    )


def is_sorted(job: JobRun) -> bool:
    (result,) = read_manifest(job.folder, "events", 0).results.values()
    files = [pq.read_table(str(job.folder.file_path(file.path))) for file in result.files]
    numbers = [table["__subpartition"].to_pylist() for table in files]
    assert sum(map(len, numbers)) == 60000
    return all(found == sorted(found) for found in numbers)


def test_few_expected_readers_filter_what_is_not_sorted_and_seven_that_come_read_the_same_rows(
    connect_server: ConnectEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "events").mkdir()
    duckdb.sql(f"COPY ({EVENTS}) TO '{tmp_path}/events/0.parquet' (FORMAT parquet)")
    expected = rows(f"SELECT customer, sum(amount), count(id) FROM ({EVENTS}) GROUP BY customer")
    for readers, came, ordered in ((None, 1, False), (None, 7, False), (8, 8, True)):
        root = tmp_path / f"{readers}-{came}"
        planned = plan(connect_server, root, tmp_path / "events", readers)
        job = planned.at_parallelism("run", came)
        for region in ("events", "totals"):
            asyncio.run(job.run_region(region))
        job.commit()
        assert job.decisions["totals"].parallelism == came
        assert rows(f"SELECT * FROM '{root}/out/**/*.parquet'") == expected
        assert is_sorted(job) is ordered
        explain_run("dag/run", str(root / "exchange"), "text")
        (told,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  rows of ")]
        order = "sorted by subpartition" if ordered else "not sorted"
        end = "came, for whom sorting would have paid" if came == 7 else f"; {came} came"
        assert told.startswith(f"  rows of totals.events {order}, with {readers or 1} subtask")
        assert told.endswith(end)
