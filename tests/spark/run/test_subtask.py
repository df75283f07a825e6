"""Whole jobs on real Spark, compared row for row with DuckDB."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifests
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import VertexProgram
from airflow_abs.spark.errors import TransientSparkError
from tests.job_runner import JobRun, plan_run, program_of, rows, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


pytestmark = pytest.mark.spark

KIB = 1024


def hashed(producer: str, consumer: str, *keys: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.HASH, keys)


def broadcast(producer: str, consumer: str) -> JobEdge:
    return JobEdge(producer, consumer, producer, Partitioning.BROADCAST)


def source(name: str, path: Path | str, **options: Any) -> VertexProgram:
    return program_of(name, None, {}, Files(str(path), **options))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders (4 files, 200,000 rows) and customers (1 file, 2,000 rows); keys that are rare, frequent and NULL."""
    folder = tmp_path_factory.mktemp("lake")
    orders = """
        SELECT range AS order_id, CASE WHEN range % 50 = 0 THEN NULL ELSE (hash(range) % 2000)::INT END AS customer_id,
               ((hash(range * 7) % 100000) / 100)::DECIMAL(12,2) AS amount, 'note ' || md5(range::VARCHAR) AS note
        FROM range({start}, {stop})"""
    (folder / "orders").mkdir()
    for part in range(4):
        query = orders.format(start=part * 50_000, stop=(part + 1) * 50_000)
        duckdb.sql(f"COPY ({query}) TO '{folder}/orders/part-{part}.parquet' (FORMAT parquet)")
    customers = (
        "SELECT range AS customer_id, ['north', 'south', 'east', 'west'][1 + range % 4] AS region FROM range(2000)"
    )
    (folder / "customers").mkdir()
    duckdb.sql(f"COPY ({customers}) TO '{folder}/customers/all.parquet' (FORMAT parquet)")
    return folder


def enrich(orders: Any, customers: Any) -> Any:
    return orders.join(customers, "customer_id", "left")


def total_by_region(enriched: Any) -> Any:
    from pyspark.sql import functions as sf

    revenue, orders, note = (
        sf.sum("amount").alias("revenue"),
        sf.count("*").alias("orders"),
        sf.max("note").alias("note"),
    )
    return enriched.groupBy("region").agg(revenue, orders, note)


def run_revenue(server: ConnectEndpoint, lake: Path, folder: Path, **options: Any) -> JobRun:
    return run_job(
        server,
        folder / "exchange",
        [
            JobVertex("orders", has_source=True),
            JobVertex("customers", has_source=True),
            JobVertex("enriched"),
            JobVertex("by_region", has_sink=True),
        ],
        [
            hashed("orders", "enriched", "customer_id"),
            broadcast("customers", "enriched"),
            hashed("enriched", "by_region", "region"),
        ],
        [
            source("orders", lake / "orders"),
            source("customers", lake / "customers"),
            program_of("enriched", enrich, {}),
            program_of("by_region", total_by_region, {}, sink=Files(str(folder / "mart"))),
        ],
        **options,
    )


REVENUE = """
    SELECT region, sum(amount) AS revenue, count(*) AS orders, max(note) AS note
    FROM read_parquet('{lake}/orders/*') LEFT JOIN read_parquet('{lake}/customers/*') USING (customer_id)
    GROUP BY region"""


@pytest.mark.parametrize(
    ("target_bytes", "subtasks"),
    [
        pytest.param(64 * KIB * KIB, 1, marks=pytest.mark.sample),
        pytest.param(3500 * KIB, 3, marks=pytest.mark.sample),
        (1000 * KIB, range(8, 33)),
    ],
)
def test_the_result_is_duckdbs_at_every_fan_out(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, target_bytes: int, subtasks: int | range
) -> None:
    run = run_revenue(connect_server, lake, tmp_path, target_bytes=target_bytes)
    decided = run.decisions["enriched"].parallelism
    assert decided == subtasks if isinstance(subtasks, int) else decided in subtasks
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/mart/*.parquet')") == rows(REVENUE.format(lake=lake))


def test_subtasks_on_one_core_give_the_same_rows(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    # as many subtasks as slots: inputs are coalesced and nothing is shuffled inside
    run_revenue(connect_server, lake, tmp_path, target_bytes=3500 * KIB, slots=2)
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/mart/*.parquet')") == rows(REVENUE.format(lake=lake))


def test_no_subtask_reads_more_than_the_target_by_more_than_one_subpartition(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    target = 1000 * KIB
    run = run_revenue(connect_server, lake, tmp_path, target_bytes=target)
    decision = run.decisions["enriched"]
    (result,) = {entry.result for entry in run.plan.region("enriched").inputs if not entry.is_broadcast}
    sizes = [
        sum(column) for column in zip(*(r["results"][result]["bytes"] for r in run.reports["orders"]), strict=True)
    ]
    assert max(subtask.bytes for subtask in decision.subtasks) <= target + max(sizes)
    assert sum(subtask.bytes for subtask in decision.subtasks) == sum(sizes)


def test_sources_give_each_subtask_files_of_about_equal_bytes(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = run_revenue(connect_server, lake, tmp_path, target_bytes=2200 * KIB)
    assert run.decisions["orders"].parallelism == 4
    assert run.decisions["orders"].max_over_mean < 1.1
    assert run.decisions["customers"].parallelism == 1


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("range::INT", "range::BIGINT"),
        ("range::SMALLINT", "range::DECIMAL(9,0)"),
        ("(range / 4)::DECIMAL(10,2)", "(range / 4)::DECIMAL(14,4)"),
        ("CASE WHEN range % 3 > 0 THEN range END::INT", "CASE WHEN range % 5 > 0 THEN range END::BIGINT"),
        ("(range / 8)::FLOAT", "(range / 8)::DOUBLE"),
        ("CASE range % 3 WHEN 0 THEN '-0.0'::DOUBLE WHEN 1 THEN 'NaN'::DOUBLE ELSE range END",
         "CASE range % 2 WHEN 0 THEN 0.0::DOUBLE ELSE 'NaN'::DOUBLE END"),
        ("DATE '2026-01-01' + range::INT", "DATE '2026-01-01' + (range * 2)::INT"),
        ("'key ' || range", "'key ' || (range * 2)"),
    ],
    ids=["int-bigint", "smallint-decimal", "decimal-scales", "nulls", "float-double", "zeros-and-nans", "date", "text"],
)  # fmt: skip
def test_co_partitioned_keys_of_different_types_meet_as_in_duckdb(
    connect_server: ConnectEndpoint, tmp_path: Path, left: str, right: str
) -> None:
    for name, key in (("l", left), ("r", right)):
        duckdb.sql(f"COPY (SELECT {key} AS k, range AS {name} FROM range(64)) TO '{tmp_path}/{name}.parquet'")
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [
            JobVertex("l", has_source=True),
            JobVertex("r", has_source=True),
            JobVertex("j", has_sink=True, parallelism=4),
        ],
        [hashed("l", "j", "k"), hashed("r", "j", "k")],
        [
            source("l", tmp_path / "l.parquet"),
            source("r", tmp_path / "r.parquet"),
            program_of("j", join_keys, {}, sink=Files(str(tmp_path / "out"))),
        ],
        max_parallelism=8,
    )
    assert run.decisions["j"].parallelism == 4
    oracle = f"SELECT l, r FROM '{tmp_path}/l.parquet' l JOIN '{tmp_path}/r.parquet' r ON l.k = r.k"
    assert rows(f"SELECT l, r FROM read_parquet('{tmp_path}/out/*.parquet')") == rows(oracle)


def join_keys(l: Any, r: Any) -> Any:  # noqa: E741
    return l.join(r, "k").select("l", "r")


@pytest.mark.sample
def test_a_rebalance_edge_spreads_rows_without_a_key(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("orders", has_source=True), JobVertex("copy", has_sink=True)],
        [JobEdge("orders", "copy", "orders", Partitioning.REBALANCE)],
        [source("orders", lake / "orders"), program_of("copy", None, {}, sink=Files(str(tmp_path / "out")))],
        target_bytes=1000 * KIB,
    )
    assert run.decisions["copy"].max_over_mean < 1.2
    counted = "SELECT count(*), count(DISTINCT order_id), sum(amount) FROM read_parquet('{}/*.parquet')"
    assert rows(counted.format(tmp_path / "out")) == rows(counted.format(lake / "orders"))


@pytest.mark.sample
@pytest.mark.parametrize("file_format", ["parquet", "csv", "json", "orc"])
def test_every_format_is_read_and_written(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, file_format: Any
) -> None:
    options = {"header": "true"} if file_format == "csv" else {}
    first = run_job(
        connect_server,
        tmp_path / "first",
        [JobVertex("customers", has_source=True, has_sink=True)],
        [],
        [program_of("customers", None, {}, Files(f"{lake}/customers"),
                       Files(f"{tmp_path}/there", format=file_format, options=options))],
    )  # fmt: skip
    assert first.reports["customers"][0]["rows"] == 2000
    run_job(
        connect_server,
        tmp_path / "second",
        [JobVertex("customers", has_source=True, has_sink=True)],
        [],
        [program_of("customers", None, {},
                       Files(f"{tmp_path}/there", format=file_format, options=options,
                             schema="customer_id BIGINT, region STRING"),
                       Files(f"{tmp_path}/back"))],
    )  # fmt: skip
    assert rows(f"FROM read_parquet('{tmp_path}/back/*.parquet')") == rows(f"FROM read_parquet('{lake}/customers/*')")


@pytest.mark.sample
def test_a_day_without_data_runs_through_with_one_subtask_each_and_a_typed_output(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    (tmp_path / "lake" / "orders").mkdir(parents=True)
    (tmp_path / "lake" / "customers").symlink_to(lake / "customers")
    duckdb.sql(f"COPY (SELECT * FROM '{lake}/orders/*.parquet' WHERE false) TO '{tmp_path}/lake/orders/empty.parquet'")
    run = run_revenue(connect_server, tmp_path / "lake", tmp_path)
    assert {decision.parallelism for decision in run.decisions.values()} == {1}
    described = duckdb.sql(f"DESCRIBE SELECT * FROM read_parquet('{tmp_path}/mart/*.parquet')").fetchall()
    assert [(name, kind) for name, kind, *_ in described] == [
        ("region", "VARCHAR"), ("revenue", "DECIMAL(22,2)"), ("orders", "BIGINT"), ("note", "VARCHAR")
    ]  # fmt: skip
    assert rows(f"SELECT * FROM read_parquet('{tmp_path}/mart/*.parquet')") == []


@pytest.mark.sample
def test_a_subtask_that_committed_is_not_run_again(connect_server: ConnectEndpoint, lake: Path, tmp_path: Path) -> None:
    run = plan_run(
        connect_server,
        tmp_path,
        [JobVertex("customers", has_source=True)],
        [],
        [source("customers", lake / "customers")],
    )
    asyncio.run(run.run_region("customers"))
    (first,) = read_manifests(run.folder, "customers", 1)
    asyncio.run(run.run_region("customers"))
    assert read_manifests(run.folder, "customers", 1) == [first]
    asyncio.run(run.run_region("customers", attempt=2))
    (second,) = read_manifests(run.folder, "customers", 1)
    assert (first.attempt, second.attempt, second.rows) == (1, 2, 2000)


def test_who_looked_for_the_manifest_too_early_writes_nothing_a_second_time(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    vertices, programs = [JobVertex("customers", has_source=True)], [source("customers", lake / "customers")]
    run = plan_run(connect_server, tmp_path, vertices, [], programs)
    asyncio.run(run.run_region("customers"))
    (first,) = read_manifests(run.folder, "customers", 1)
    files = [run.folder.file_path(file.path) for result in first.results.values() for file in result.files]
    written = [(file.stat().st_ino, file.stat().st_mtime_ns) for file in files]
    run.folder.manifest_path("customers", 0).unlink()
    with suppress(TransientSparkError):  # the server refuses the operation, or has its answer still
        asyncio.run(run.run_region("customers"))
    assert [(file.stat().st_ino, file.stat().st_mtime_ns) for file in files] == written
