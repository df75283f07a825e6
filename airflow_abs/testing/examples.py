"""The example DAGs that the demo runs, on any Spark server, against DuckDB's answer."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.testing.local import run_locally

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

EXAMPLES = ("daily_revenue", "diamond")
DAY = date(2026, 1, 2)
_RUN_ON = datetime(2026, 1, 3, tzinfo=UTC)
_DATA = "AIRFLOW_ABS_DEMO_DATA"
_EXCHANGE = "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE"
_SCALE = 0.01


def generate_data(folder: Path) -> None:
    """The day that the examples read; needs DuckDB."""
    from airflow_abs.demo.generate import DataSpec, generate

    generate(DataSpec(folder, (DAY,), _SCALE))


def compare_example(name: str, data: Path, endpoint: ConnectEndpoint, parallelism: int | None) -> str | None:
    """What is wrong with the rows of an example's sink, given DuckDB's; None if nothing is.

    The server sees the folder above `data`, where the job's own files are.

    Raises:
        ImportError: Airflow cannot load the example's DAG.
        JobGraphError, SparkOperationError, ExchangeError: it does not run.
    """
    from airflow_abs.testing.rows import describe_difference

    with _reading(data):
        task = _plan_task(name)
        (sink,) = [each.name for each in task.declared if each.sink]
        found = run_locally(task, parallelism, endpoint=endpoint, logical_date=_RUN_ON)[sink].rows
    return describe_difference(found, _expected(name, data, found.schema))


def _expected(name: str, data: Path, schema: pa.Schema) -> pa.Table:
    import duckdb

    from airflow_abs.demo.oracle import QUERIES

    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW orders AS SELECT * EXCLUDE ds FROM '{data}/orders/ds={DAY}/*.parquet'")  # noqa: S608
        connection.execute(f"CREATE VIEW customers AS SELECT * FROM '{data}/customers/*.parquet'")  # noqa: S608
        return connection.sql(QUERIES[name]).to_arrow_table().select(schema.names).cast(schema)


def _plan_task(name: str) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    from airflow_abs.demo.example_dags import example_dags_folder

    bag = DagBag(str(example_dags_folder() / f"{name}.py"))
    if bag.import_errors:
        raise ImportError("; ".join(bag.import_errors.values()))
    return next(task for dag in bag.dags.values() for task in dag.tasks if task.task_id.endswith(".plan"))


@contextmanager
def _reading(data: Path) -> Iterator[None]:
    own = {_DATA: str(data), _EXCHANGE: f"file://{data.parent}/exchange"}  # without an exchange no DAG is loaded
    before, folder = {name: os.environ.get(name) for name in own}, tempfile.tempdir
    os.environ |= own
    tempfile.tempdir = str(data.parent)  # for `run_locally`
    try:
        yield
    finally:
        tempfile.tempdir = folder
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
