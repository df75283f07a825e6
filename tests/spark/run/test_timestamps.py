"""Timestamps reach the next vertex with all their digits, also where the server writes Parquet files with fewer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import program_of, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

MILLIS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"}
ROWS = "SELECT i AS id, 1767225600000000 + i * 1001 AS moment FROM range(20) t(i)"


def as_micros(orders: Any) -> Any:
    return orders.selectExpr("id", "unix_micros(moment) AS moment")


@pytest.mark.parametrize("published", [False, True])
def test_no_digit_is_lost_between_two_vertices(
    connect_server: ConnectEndpoint, tmp_path: Path, published: bool
) -> None:
    lake, mart = tmp_path / "orders.parquet", tmp_path / "mart"
    duckdb.sql(f"COPY (SELECT id, make_timestamptz(moment) AS moment FROM ({ROWS})) TO '{lake}' (FORMAT parquet)")
    sink = Files(str(tmp_path / "orders")) if published else None
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("orders", has_source=True, has_sink=published), JobVertex("micros", has_sink=True)],
        [JobEdge("orders", "micros", "orders", Partitioning.HASH, ("id",))],
        [
            program_of("orders", None, {}, Files(str(lake)), sink, spark_conf=MILLIS),
            program_of("micros", as_micros, {}, sink=Files(str(mart)), spark_conf=MILLIS),
        ],
    )
    assert sorted(duckdb.sql(f"FROM '{mart}/*.parquet'").fetchall()) == sorted(duckdb.sql(ROWS).fetchall())
