"""`spark_conf=` and `schema=` of a vertex, in `plan`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.contracts import check_contract, set_conf
from tests.job_runner import program_of, run_job

pytestmark = [pytest.mark.spark, pytest.mark.sample]
LENIENT = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Asia/Tokyo"}


def as_number(rows: Any) -> Any:
    return rows.selectExpr("CAST(text AS INT) AS number", "current_timezone() AS zone")


def test_settings_of_a_vertex_hold_in_plan_and_in_every_subtask(connect_server: Any, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT unnest(['1', 'x']) AS text) TO '{tmp_path}/in.parquet'")
    program = program_of(
        "numbers", as_number, {}, Files(f"{tmp_path}/in.parquet"), Files(f"{tmp_path}/out"), spark_conf=LENIENT
    )
    run_job(
        connect_server, tmp_path / "exchange", [JobVertex("numbers", has_source=True, has_sink=True)], [], [program]
    )
    found = duckdb.sql(f"SELECT * FROM '{tmp_path}/out/*.parquet' ORDER BY number").fetchall()
    assert found == [(1, "Asia/Tokyo"), (None, "Asia/Tokyo")]


def test_settings_end_with_the_vertex(session: Any) -> None:
    key = "spark.sql.session.timeZone"
    before = session.conf.get(key)
    with set_conf(session, "numbers", {key: "Asia/Tokyo", "spark.sql.shuffle.partitions": "3"}):
        assert (session.conf.get(key), session.conf.get("spark.sql.shuffle.partitions")) == ("Asia/Tokyo", "3")
    assert session.conf.get(key) == before


def test_a_setting_of_the_whole_server_is_refused(session: Any) -> None:
    with pytest.raises(JobGraphError) as refused, set_conf(session, "numbers", {"spark.executor.memory": "1g"}):
        pass
    assert "vertex 'numbers': Spark does not accept spark.executor.memory='1g' from its spark_conf" in str(
        refused.value
    )
    assert "set server-wide settings when the server starts" in str(refused.value)


def test_a_contract_that_is_kept_says_nothing(session: Any) -> None:
    found = session.range(1).selectExpr("id", "CAST(id AS STRING) AS name").schema
    check_contract(session, "numbers", found, "id BIGINT NOT NULL, name STRING")


@pytest.mark.parametrize(
    ("promised", "problem"),
    [
        ("id BIGINT", "a column name that is not promised"),
        ("id BIGINT, name STRING, day DATE", "no column day"),
        ("id INT, name STRING", "id is bigint, not int"),
        ("id BIGINT, name STRING NOT NULL", "name may be NULL (use coalesce, or drop NOT NULL)"),
        ("name STRING, id BIGINT", "the columns are in the order id, name"),
        ("id BIGNUM", "its schema 'id BIGNUM' is not DDL that Spark reads"),
    ],
)
def test_a_broken_contract_says_what_differs(session: Any, promised: str, problem: str) -> None:
    found = session.range(1).selectExpr("id", "nullif(CAST(id AS STRING), '') AS name").schema
    with pytest.raises(JobGraphError) as refused:
        check_contract(session, "numbers", found, promised)
    assert str(refused.value).startswith("vertex 'numbers': its ")
    assert problem in str(refused.value)
