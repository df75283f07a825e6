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
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_abs.demo.services import AirflowServices, example_environment
from airflow_abs.spark.server.embedded import embedded_status
from testbed.places.programs import connector_folder
from testbed.places.s3_gateway import S3Gateway
from tests.airflow_settings import FOR_TESTS
from tests.places.daily import JOIN, SECONDS, TARGET_BYTES, Daily, generate_days
from tests.task_instances import clear_task

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.services]

OUTAGE = float(os.environ.get("AIRFLOW_ABS_OUTAGE", "60"))


@dataclass(frozen=True, slots=True)
class Place(Daily):
    """The store on which Airflow and Spark work."""

    store: S3Gateway = field(kw_only=True)

    def subtasks(self, run_id: str) -> int:
        return sum(each.task_id.endswith(".run") for each in self.api.task_instances(self.dag_id, run_id))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("s3")
    store = S3Gateway.at(folder)
    generate_days(folder / "generated")
    shutil.copytree(Path(__file__).parents[2] / "dags", folder / "dags", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).parent / "dags" / "wrong_key.py", folder / "dags")
    with store.server:
        for bucket in ("lake", "mart", "scratch"):
            store.make_bucket(bucket)
        store.upload("lake", folder / "generated")
        with AirflowServices(folder / "airflow", folder / "dags", env=environment(folder, store)) as airflow:
            yield Place(airflow, folder / "generated", folder / "data" / "mart" / "daily_revenue", store=store)


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
    clear_task(place.api, place.dag_id, run_id, JOIN, map_index=0)
    place.ends_right(run_id, 1)
    tries = place.tries(run_id, JOIN)
    assert tries.pop(0) == 2
    assert set(tries.values()) <= {1}


def test_a_killed_server_costs_a_retry_and_no_row(place: Place) -> None:
    run_id = place.start(2)
    place.wait_for_join(run_id)
    killed = embedded_status(place.airflow.spark_folder).jvm_pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    place.ends_right(run_id, 2)
    print(f"Spark's server {killed} was killed", flush=True)


def test_a_store_that_is_away_is_waited_for(place: Place) -> None:
    run_id = place.start(3)
    place.wait_for_join(run_id)
    place.store.server.kill()
    time.sleep(OUTAGE)
    place.store.server.start()
    place.ends_right(run_id, 3)
    print(f"the store was away for {OUTAGE:g} s", flush=True)


def test_a_wrong_key_fails_in_plan_and_says_so(place: Place) -> None:
    run_id = place.start(0, dag_id="wrong_key")
    assert place.api.wait_for_run("wrong_key", run_id, SECONDS) == "failed"
    told = "\n".join(place.told(run_id, "wrong_key"))
    assert "SignatureDoesNotMatch" in told, told
    print(next(line for line in told.splitlines() if "SignatureDoesNotMatch" in line)[:400], flush=True)
