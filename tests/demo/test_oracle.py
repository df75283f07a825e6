from __future__ import annotations

from datetime import date
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import QUERIES, Verdict, compare, verify

DAY = date(2026, 1, 2)


def verdict(actual: str, expected: str) -> Verdict:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE actual AS {actual}")
        connection.execute(f"CREATE TABLE expected AS {expected}")
        return compare(connection, "job 2026-01-02")


def test_the_same_rows_in_another_order_are_equal() -> None:
    assert verdict("FROM (VALUES (1, 'a'), (2, NULL)) t(n, s)", "FROM (VALUES (2, NULL), (1, 'a')) t(n, s)") == Verdict(
        2
    )


def test_a_row_that_comes_twice_is_not_equal_to_it_coming_once() -> None:
    assert verdict("FROM (VALUES (1), (1)) t(n)", "FROM (VALUES (1)) t(n)") == Verdict(
        2, "job 2026-01-02: of 2 rows 1 are not expected, 0 are missing; not expected: ('1',); missing: none"
    )


def test_what_differs_is_shown_from_both_sides() -> None:
    assert verdict("SELECT 1.50::DECIMAL(12,2) AS total", "SELECT 1.49::DECIMAL(12,2) AS total") == Verdict(
        1, "job 2026-01-02: of 1 rows 1 are not expected, 1 are missing; not expected: ('1.50',); missing: ('1.49',)"
    )


def test_a_column_of_another_type_is_not_equal() -> None:
    assert verdict("SELECT 1::INTEGER AS n", "SELECT 1::BIGINT AS n") == Verdict(
        0, "job 2026-01-02: columns are n INTEGER, expected n BIGINT"
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    generate(DataSpec(folder, (DAY,), 0.01))
    return folder


@pytest.mark.slow
def test_a_missing_output_is_named(data: Path, tmp_path: Path) -> None:
    found = verify("daily_revenue", DAY, data, tmp_path / "mart")
    assert found.problem == (
        f"daily_revenue 2026-01-02: no Parquet file below {tmp_path}/mart; expected the committed output of the run"
    )


@pytest.mark.slow
@pytest.mark.parametrize("dag_id", QUERIES)
def test_the_query_of_every_example_dag_runs_and_finds_a_lost_row(dag_id: str, data: Path, tmp_path: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW orders AS SELECT * EXCLUDE ds FROM '{data}/orders/ds={DAY}/*.parquet'")
        connection.execute(f"CREATE VIEW customers AS FROM '{data}/customers/*.parquet'")
        connection.execute(f"COPY ({QUERIES[dag_id]}) TO '{tmp_path}/out.parquet'")
        right = verify(dag_id, DAY, data, tmp_path)
        connection.execute(f"CREATE TABLE kept AS FROM '{tmp_path}/out.parquet' OFFSET 1")
        connection.execute(f"COPY kept TO '{tmp_path}/out.parquet'")
    wrong = verify(dag_id, DAY, data, tmp_path)
    assert right.ok
    assert right.rows >= 2
    assert wrong.rows == right.rows - 1
    assert "0 are not expected, 1 are missing" in str(wrong.problem)
