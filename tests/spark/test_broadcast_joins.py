"""Joins whose large side is not hashed, on real Spark, against DuckDB."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest

from airflow_abs.cli.commands.explain import explain_run
from airflow_abs.core.durability import broadcast_join
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.job_runner import JobRun, plan_run, program_of, rows

pytestmark = pytest.mark.spark

FILES = 4
TARGET = 8 * 1024
SALES = "SELECT range AS id, CASE WHEN range % 20 > 0 THEN range * 7 % 900 END AS customer, range % 100 AS amount"
CUSTOMERS = "SELECT range AS customer, chr(65 + (range % 5)::INT) AS segment FROM range(800)"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sales with NULL customers and with unknown customers, in four files; and customers without sales."""
    folder = tmp_path_factory.mktemp("tables")
    for name in ("sales", "customers"):
        (folder / name).mkdir()
    for part in range(FILES):
        part_of = f"{SALES} FROM range({part * 5000}, {part * 5000 + 5000})"
        duckdb.sql(f"COPY ({part_of}) TO '{folder}/sales/{part}.parquet' (FORMAT parquet)")
    duckdb.sql(f"COPY ({CUSTOMERS}) TO '{folder}/customers/0.parquet' (FORMAT parquet)")
    return folder


@pytest.fixture(autouse=True)
def every_join_is_worth_it() -> Iterator[None]:
    with mock.patch.object(broadcast_join, "WORTH_BYTES", 0):
        yield


def join_of(kind: str) -> Any:
    def join(sales: Any, customers: Any) -> Any:
        joined = sales.join(customers, sales["customer"] == customers["customer"], kind)
        return joined.select("id", sales["customer"], "amount", *([] if "semi" in kind else ["segment"]))

    return join


def plan(
    server: ConnectEndpoint, tables: Path, root: Path, kind: str, files: int | None = None, **declared: Any
) -> JobRun:
    return plan_run(
        server,
        root / "exchange",
        [
            JobVertex("sales", FILES, has_source=True),
            JobVertex("customers", has_source=True),
            JobVertex("joined", has_sink=True),
        ],
        [
            JobEdge("sales", "joined", "sales", Partitioning.HASH, ("customer",)),
            JobEdge("customers", "joined", "customers", Partitioning.HASH, ("customer",)),
        ],
        [
            program_of("sales", None, {}, Files(str(tables / "sales"))),
            program_of("customers", None, {}, Files(str(tables / "customers"))),
            program_of("joined", join_of(kind), {}, sink=Files(str(root / "out"), files=files), **declared),
        ],
        target_bytes=TARGET,
    )


def how_it_reads(job: JobRun) -> dict[str, Partitioning]:
    return {entry.name: entry.partitioning for entry in job.plan.region("joined").inputs}


DECLARED = {"joined.sales": Partitioning.HASH, "joined.customers": Partitioning.HASH}
OTHER_WAY_ROUND = {"joined.sales": Partitioning.BROADCAST, "joined.customers": Partitioning.RESCALE}
BROADCAST = {"joined.sales": Partitioning.RESCALE, "joined.customers": Partitioning.BROADCAST}


def expected(tables: Path, kind: str) -> list[tuple[Any, ...]]:
    segment = "" if kind == "semi" else ", segment"
    return rows(
        f"SELECT id, s.customer, amount{segment} FROM '{tables}/sales/*.parquet' s "
        f"{kind} JOIN '{tables}/customers/*.parquet' c ON s.customer = c.customer"
    )


def run(job: JobRun, *regions: str) -> None:
    for region in regions:
        asyncio.run(job.run_region(region))


@pytest.mark.parametrize(
    ("kind", "reads"),
    [
        pytest.param("inner", BROADCAST, marks=pytest.mark.sample),
        ("left", BROADCAST),
        ("semi", BROADCAST),
        ("right", OTHER_WAY_ROUND),
        ("full", DECLARED),
    ],
)
def test_rows_are_those_of_the_join_however_its_sides_are_read(
    connect_server: ConnectEndpoint,
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    reads: dict[str, Partitioning],
) -> None:
    job = plan(connect_server, tables, tmp_path, kind)
    run(job, "sales", "customers", "joined")
    job.commit()
    assert how_it_reads(job) == reads
    assert (job.decisions["joined"].parallelism > 1) is (reads != OTHER_WAY_ROUND)  # that has one file
    assert rows(f"SELECT * FROM '{tmp_path}/out/**/*.parquet'") == expected(tables, kind)
    written = {file for result in read_manifest(job.folder, "sales", 0).results for file in [result.split(".")[1]]}
    assert (written == {"whole"}) is (reads != DECLARED)
    explain_run("dag/run", str(tmp_path / "exchange"), "text")
    told = capsys.readouterr().out
    assert ("  broadcast join: every subtask reads customers whole (at most 4.4 KiB" in told) is (reads == BROADCAST)
    assert ("  broadcast join: every subtask reads sales whole" in told) is (reads == OTHER_WAY_ROUND)


def test_a_large_side_a_setting_of_spark_and_a_number_of_files_keep_the_hash(
    connect_server: ConnectEndpoint, tables: Path, tmp_path: Path
) -> None:
    never = {"spark.sql.autoBroadcastJoinThreshold": "-1"}
    assert how_it_reads(plan(connect_server, tables, tmp_path / "never", "inner", spark_conf=never)) == DECLARED
    assert how_it_reads(plan(connect_server, tables, tmp_path / "files", "inner", files=1)) == DECLARED
    with mock.patch.object(broadcast_join, "MOST_BROADCAST", 100):
        assert how_it_reads(plan(connect_server, tables, tmp_path / "large", "inner")) == DECLARED


def test_a_side_that_grew_after_it_was_planned_is_still_right(
    connect_server: ConnectEndpoint, tables: Path, tmp_path: Path
) -> None:
    job = plan(connect_server, tables, tmp_path, "inner")
    run(job, "sales", "customers")
    with mock.patch.object(broadcast_join, "MOST_BROADCAST", 1):  # no hint for Spark, which then shuffles
        run(job, "joined")
    job.commit()
    assert how_it_reads(job) == BROADCAST
    assert rows(f"SELECT * FROM '{tmp_path}/out/**/*.parquet'") == expected(tables, "inner")


def test_lost_files_of_both_sides_are_recomputed(connect_server: ConnectEndpoint, tables: Path, tmp_path: Path) -> None:
    job = plan(connect_server, tables, tmp_path, "left")
    run(job, "sales", "customers")
    for region in ("sales", "customers"):
        (result,) = read_manifest(job.folder, region, 0).results.values()
        Path(str(job.folder.file_path(result.files[0].path))).unlink()
    run(job, "joined")
    job.commit()
    assert rows(f"SELECT * FROM '{tmp_path}/out/**/*.parquet'") == expected(tables, "left")
