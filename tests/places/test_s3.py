"""The daily job on a real store that speaks S3, from both sides, by Airflow's own services and a real Spark.

`make test-s3` fetches gateway and connector and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from airflow_abs.demo.airflow_api import AirflowApi
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import verify
from airflow_abs.demo.services import AirflowServices, example_environment
from airflow_abs.spark.server.embedded import embedded_status
from testbed.places.programs import connector_folder
from testbed.places.s3_gateway import S3Gateway
from tests.airflow_settings import FOR_TESTS
from tests.task_instances import clear_task, wait_for_task

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.services]

DAG = "daily_revenue"
DAYS = tuple(date(2026, 1, day) for day in range(1, 5))
TARGET_BYTES = 80_000
SECONDS = 600.0
OUTAGE = float(os.environ.get("AIRFLOW_ABS_OUTAGE", "60"))
JOIN = "revenue.enriched.run"


@dataclass(frozen=True, slots=True)
class Place:
    """Airflow's services, and the store on which they and Spark work."""

    airflow: AirflowServices
    store: S3Gateway
    folder: Path

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    def start(self, day: int, dag_id: str = DAG) -> str:
        self.api.wait_for_dag(dag_id, SECONDS)
        logical = datetime.combine(DAYS[day], datetime.min.time(), UTC) + timedelta(days=1)
        return self.api.trigger_run(dag_id, logical, run_id=f"day-{day}")

    def ends_right(self, run_id: str, day: int) -> None:
        state = self.api.wait_for_run(DAG, run_id, SECONDS)
        assert state == "success", self.told(run_id)
        output = self.folder / "data" / "mart" / DAG / f"ds={DAYS[day]}"
        verdict = verify(DAG, DAYS[day], self.folder / "generated", output)
        assert verdict.problem is None, verdict.problem
        print(f"{run_id}: {verdict.rows} rows, as DuckDB has them", flush=True)

    def told(self, run_id: str, dag_id: str = DAG) -> list[str]:
        """What its failed tasks say."""
        failed = [each for each in self.api.task_instances(dag_id, run_id) if each.state == "failed"]
        return [self.api.task_log(dag_id, run_id, each.task_id, map_index=each.map_index)[-3000:] for each in failed]

    def subtasks(self, run_id: str) -> int:
        return sum(each.task_id.endswith(".run") for each in self.api.task_instances(DAG, run_id))

    def retries(self, run_id: str) -> int:
        return sum(max(0, each.try_number - 1) for each in self.api.task_instances(DAG, run_id))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("s3")
    store = S3Gateway.at(folder)
    generate(DataSpec(folder / "generated", DAYS, 0.02, hot_day=DAYS[2]))
    shutil.copytree(Path(__file__).parents[2] / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).parent / "dags" / "wrong_key.py", folder / "dags")
    with store.server:
        for bucket in ("lake", "mart", "scratch"):
            store.make_bucket(bucket)
        store.upload("lake", folder / "generated")
        with AirflowServices(folder / "airflow", folder / "dags", env=environment(folder, store)) as airflow:
            yield Place(airflow, store, folder)


def environment(folder: Path, store: S3Gateway) -> dict[str, str]:
    conf = {"spark.jars": f"{connector_folder('s3')}/*.jar", **store.spark_settings}
    spark = {"conn_type": "spark_connect", "extra": {"cores": 2, "idle_seconds": 300, "conf": conf}}
    return (
        example_environment(folder, TARGET_BYTES)
        | FOR_TESTS
        | {
            "AIRFLOW_ABS_DEMO_DATA": "s3://store@lake",
            "AIRFLOW_ABS_DEMO_OUT": "s3://store@mart",
            "AIRFLOW__ADAPTIVE_SPARK__EXCHANGE": "s3://store@scratch/exchange",
            "AIRFLOW_CONN_STORE": json.dumps(store.connection()),
            "AIRFLOW_CONN_WRONG": json.dumps(store.connection("another")),
            "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT": json.dumps(spark),
        }
    )


def test_a_day_is_right_and_its_requests_are_counted(place: Place) -> None:
    before, started = place.store.requests(), time.monotonic()
    run_id = place.start(0)
    place.ends_right(run_id, 0)
    asked: Counter[str] = place.store.requests() - before
    subtasks = place.subtasks(run_id)
    print(
        f"{time.monotonic() - started:.0f} s, {asked.total()} requests for {subtasks} subtasks, "
        f"{asked.total() / subtasks:.0f} each: {dict(asked.most_common())}",
        flush=True,
    )


def test_one_range_is_retried_alone(place: Place) -> None:
    run_id = place.start(1)
    place.ends_right(run_id, 1)
    clear_task(place.api, DAG, run_id, JOIN, map_index=0)
    wait_for_task(place.api, DAG, run_id, JOIN, {"success"}, SECONDS, map_index=0)
    place.ends_right(run_id, 1)
    tries = {each.map_index: each.try_number for each in place.api.task_instances(DAG, run_id) if each.task_id == JOIN}
    assert tries.pop(0) == 2
    assert set(tries.values()) <= {1}


def test_a_killed_server_costs_a_retry_and_no_row(place: Place) -> None:
    run_id = place.start(2)
    wait_for_task(place.api, DAG, run_id, JOIN, {"running", "deferred"}, SECONDS, map_index=0)
    killed = embedded_status(place.airflow.spark_folder).jvm_pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    place.ends_right(run_id, 2)
    print(f"Spark's server {killed} was killed; {place.retries(run_id)} retries", flush=True)


def test_a_store_that_is_away_is_waited_for(place: Place) -> None:
    run_id = place.start(3)
    wait_for_task(place.api, DAG, run_id, JOIN, {"running", "deferred"}, SECONDS, map_index=0)
    place.store.server.kill()
    time.sleep(OUTAGE)
    place.store.server.start()
    place.ends_right(run_id, 3)
    print(f"the store was away for {OUTAGE:g} s; {place.retries(run_id)} retries", flush=True)


def test_a_wrong_key_fails_in_plan_and_says_so(place: Place) -> None:
    run_id = place.start(0, "wrong_key")
    assert place.api.wait_for_run("wrong_key", run_id, SECONDS) == "failed"
    told = "\n".join(place.told(run_id, "wrong_key"))
    assert "SignatureDoesNotMatch" in told, told
    print(next(line for line in told.splitlines() if "SignatureDoesNotMatch" in line)[:400], flush=True)
