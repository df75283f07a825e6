"""`airflow dags test`: a whole run in one process, without a scheduler and without a triggerer."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

from airflow_abs.demo.services import AirflowServices
from tests.airflow_settings import FOR_TESTS
from tests.services.conftest import lake_properties
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]

TABLES = ("first", "second", "third")
DAG_FILE = """
import time

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, Files, IcebergTable, JobOptions, VertexOptions
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task as vertex


def added(first, second, third):
    return first.unionByName(second).unionByName(third)


with DAG("joined", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("job", durability="always", options=JobOptions(defer_after=0.1, slots=1)) as job:
        parts = [
            vertex(
                task_id=name,
                source=IcebergTable(f"lake.db.{name}"),
                options=VertexOptions(parallelism=2 if name == "first" else None),
            )(lambda rows: rows)()
            for name in NAMES
        ]
        vertex(task_id="added", sink=Files(MART, mode="overwrite"))(added)(*parts)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[AirflowServices]:
    """An Airflow with a database, of which no service runs; it holds the connection `lake`."""
    (tmp_path / "dags").mkdir()
    made = AirflowServices(
        tmp_path / "airflow",
        tmp_path / "dags",
        env=FOR_TESTS
        | {
            "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": f"file://{tmp_path}/exchange",
            # No variable of the environment, which Airflow asks first: it is looked up in the database.
            "AIRFLOW__DATABASE__LOAD_DEFAULT_CONNECTIONS": "False",
        },
    )
    made.home.mkdir()
    try:
        airflow(made, "db", "migrate")
        extra = json.dumps(lake_properties(tmp_path))
        airflow(made, "connections", "add", "lake", "--conn-type", "generic", "--conn-extra", extra)
        yield made
    finally:
        made.stop()


def airflow(home: AirflowServices, *arguments: str) -> str:
    command = [sys.executable, "-m", "airflow", *arguments]
    done = subprocess.run(
        command, check=False, env=home.env, cwd=home.home, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-20_000:]
    return done.stdout


def test_a_job_of_several_tables_whose_subtasks_would_leave_their_worker_succeeds(
    home: AirflowServices, tmp_path: Path
) -> None:
    catalog = load_catalog("lake", **lake_properties(tmp_path))
    catalog.create_namespace("db")
    for number, name in enumerate(TABLES):
        rows = pa.table({"number": pa.array(range(number * 100, number * 100 + 100), pa.int64())})
        table = catalog.create_table(f"db.{name}", rows.schema)
        table.append(rows.slice(0, 50))
        table.append(rows.slice(50))
    catalog.close()
    constants = f"NAMES, MART = {TABLES!r}, {str(tmp_path / 'mart')!r}\n"
    (tmp_path / "dags" / "joined.py").write_text(constants + DAG_FILE)
    told = airflow(home, "dags", "test", "joined", "2026-01-03")
    found = duckdb.sql(f"SELECT count(*), sum(number) FROM '{tmp_path}/mart/*.parquet'").fetchall()
    assert found == [(300, 44_850)], told[-20_000:]
