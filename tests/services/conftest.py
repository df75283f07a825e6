"""One real Airflow for all tests of this folder: services, example DAGs, generated data, an exchange.

Started for the first of them and gone after the last, so that it slows nothing else down.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from airflow_abs.cli.output.terminal import Terminal
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.run import run_day
from airflow_abs.demo.run_report import RunReport
from airflow_abs.demo.services import SERVICES, AirflowServices, example_environment
from tests.airflow_settings import FOR_TESTS, TREE
from tests.replayed import assert_all_replayed
from tests.services.watched_run import StartRun, WatchedRun
from tests.standalone import RUN_CONNECTION, Standalone, choose_ports

DAYS = (date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3))
SCALE = 0.02
TARGET_BYTES = 80_000
DAG_SECONDS = 240.0
SETTINGS = FOR_TESTS | {
    "AIRFLOW_CONN_FS_DEFAULT": '{"conn_type": "fs"}',
    # Who may do what is in `rights`.
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent / "rights"), TREE]),
    "AIRFLOW__CORE__AUTH_MANAGER": "keeper_of_secrets.KeeperOfSecrets",
}
EXAMPLES = Path(__file__).parents[2] / "dags"
TEST_DAGS = Path(__file__).parent / "dags"


def logged_spark(folder: Path) -> dict[str, str]:
    """The embedded Spark writes what happens on it to `folder`, so that tests can count there."""
    folder.mkdir()
    conf = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    connection = {"conn_type": "spark_connect", "extra": {"idle_seconds": 120, "conf": conf}}
    return {"AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps(connection)}


def lake_properties(folder: Path) -> dict[str, str]:
    """The Iceberg catalog of the connection `lake`."""
    return {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}


@pytest.fixture(scope="session")
def days() -> tuple[date, ...]:
    """Days with generated orders: small, middle, large with a hot customer."""
    return DAYS


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `data`, `mart`, `exchange`, `dags` and `airflow` (the home, with all logs)."""
    return tmp_path_factory.mktemp("services")


@pytest.fixture(scope="package")
def standalone() -> Standalone:
    """Where the Spark cluster of the connection `standalone` is, once a test has started it."""
    return choose_ports()


@pytest.fixture(scope="package")
def airflow(folder: Path, standalone: Standalone) -> Iterator[AirflowServices]:
    """Started once. A DAG file put into its `dags_folder` is found within some seconds (`api.wait_for_dag`)."""
    generate(DataSpec(folder / "data", DAYS, SCALE, hot_day=DAYS[2]))
    shutil.copytree(EXAMPLES, folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(TEST_DAGS, folder / "dags", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    environment = example_environment(folder, TARGET_BYTES) | SETTINGS | logged_spark(folder / "spark-events")
    environment["AIRFLOW_CONN_STANDALONE"] = standalone.connection
    environment["AIRFLOW_CONN_RUN_SPARK"] = RUN_CONNECTION
    environment["AIRFLOW_CONN_LAKE"] = json.dumps({"conn_type": "iceberg", "extra": lake_properties(folder)})
    with AirflowServices(folder / "airflow", folder / "dags", env=environment) as services:
        yield services
        assert [each for each in SERVICES if not services.is_running(each)] == []  # none has ended by itself
    if (folder / "exchange").exists():  # some tests run nothing on Spark
        assert_all_replayed(folder / "exchange")


@pytest.fixture(scope="package")
def daily_runs(airflow: AirflowServices, folder: Path, days: tuple[date, ...]) -> tuple[RunReport, ...]:
    """The first example DAG on each of the days, one after the other."""
    airflow.api.wait_for_dag("daily_revenue", DAG_SECONDS)
    return tuple(run_day("daily_revenue", day, folder, airflow.api, Terminal()) for day in days)


@pytest.fixture(scope="package")
def start_run(airflow: AirflowServices, days: tuple[date, ...]) -> StartRun:
    """Trigger a DAG for one of the days, as its schedule would at the end of that day."""

    def start(dag_id: str, day: int) -> WatchedRun:
        airflow.api.wait_for_dag(dag_id, DAG_SECONDS)
        end = days[day] + timedelta(days=1)
        logical_date = datetime(end.year, end.month, end.day, tzinfo=UTC)
        return WatchedRun(airflow, dag_id, airflow.api.trigger_run(dag_id, logical_date, run_id=f"day-{day}"))

    return start


@pytest.fixture(scope="package")
def finished(airflow: AirflowServices, daily_runs: tuple[RunReport, ...]) -> WatchedRun:
    """The example DAG on its day with a hot customer, after two days of fewer orders."""
    assert [run.problem for run in daily_runs] == [None] * 3
    return WatchedRun(airflow, "daily_revenue", daily_runs[2].run_id)
