"""The demo's job on whatever release the server of the tests has; `make test-spark-versions` has several."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import QUERIES
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.testing import run_locally

pytestmark = pytest.mark.spark

DAY = date(2026, 1, 2)
DAGS = Path(__file__).parents[3] / "dags"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo-data")
    generate(DataSpec(folder, (DAY,), 0.01))
    return folder


def plan_of(file: str, monkeypatch: pytest.MonkeyPatch, data: Path) -> Any:
    """The plan task of an example DAG that reads `data`."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setenv("AIRFLOW_ABS_DEMO_DATA", str(data))
    bag = DagBag(str(DAGS / file))
    assert bag.import_errors == {}
    return next(task for dag in bag.dags.values() for task in dag.tasks if task.task_id.endswith(".plan"))


@pytest.mark.parametrize(("file", "vertex"), [("daily_revenue.py", "by_region"), ("diamond.py", None)])
@pytest.mark.parametrize("parallelism", [None, 3])
def test_the_rows_of_the_demos_job_are_duckdbs(
    file: str,
    vertex: str | None,
    parallelism: int | None,
    data: Path,
    connect_server: ConnectEndpoint,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = plan_of(file, monkeypatch, data)
    run = run_locally(task, parallelism, endpoint=connect_server, logical_date=datetime(2026, 1, 3, tzinfo=UTC))
    actual = run[vertex or next(each.name for each in task.declared if each.sink)].rows
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW orders AS SELECT * EXCLUDE ds FROM '{data}/orders/ds={DAY}/*.parquet'")
        connection.execute(f"CREATE VIEW customers AS SELECT * FROM '{data}/customers/*.parquet'")
        columns = ", ".join(actual.column_names)
        expected = connection.execute(f"SELECT {columns} FROM ({QUERIES[file.removesuffix('.py')]})").fetchall()
    assert sorted(expected, key=repr) == sorted((tuple(row.values()) for row in actual.to_pylist()), key=repr)
    assert expected
