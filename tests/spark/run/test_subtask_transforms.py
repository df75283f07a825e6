"""Transforms that a server could choke on: Python functions, deep plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.sources.files import Files
from tests.job_runner import program_of, rows, run_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.sample]

STEP = 7


def add_step(number):  # without type hints: pyspark warns of those that a module keeps as text
    return number + STEP


def with_a_python_function(numbers: Any) -> Any:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(add_step, "long")("number").alias("number"))


def test_python_functions_of_a_dag_file_run_on_a_server_that_cannot_import_it(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    duckdb.sql(f"COPY (SELECT range AS number FROM range(100)) TO '{tmp_path}/numbers.parquet'")
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("numbers", has_source=True, has_sink=True)],
        [],
        [
            program_of(
                "numbers",
                with_a_python_function,
                {},
                Files(str(tmp_path / "numbers.parquet")),
                Files(str(tmp_path / "out")),
            )
        ],
    )
    assert rows(f"FROM '{tmp_path}/out/*.parquet'") == rows("SELECT range + 7 FROM range(100)")


def many_steps(source: Any) -> Any:
    for number in range(80):
        source = source.where(f"v <> {-number - 1}")
    return source


def test_a_transform_of_many_chained_calls_runs(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    duckdb.sql(f"COPY (SELECT range AS v FROM range(10)) TO '{tmp_path}/in.parquet'")
    files = Files(f"{tmp_path}/in.parquet"), Files(f"{tmp_path}/out")
    run_job(
        connect_server,
        tmp_path / "exchange",
        [JobVertex("many", has_source=True, has_sink=True)],
        [],
        [program_of("many", many_steps, {}, *files)],
    )
    assert duckdb.sql(f"SELECT count(*) FROM '{tmp_path}/out/*.parquet'").fetchall() == [(10,)]
