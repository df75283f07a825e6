"""The daily job on YARN, each run with a Spark server of its own, by Airflow's own services and a real Spark.

`make test-yarn` fetches Hadoop's daemons and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from airflow_abs.spark.connect.protocol import pyspark_folder
from testbed.places.yarn import YarnCluster
from tests.places.daily import JOIN, SECONDS
from tests.places.on_cluster import START, OnCluster, processes
from tests.task_instances import clear_task
from tests.waiting import wait_until

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.services, pytest.mark.timeout(3600)]

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class Place(OnCluster):
    yarn: YarnCluster = field(kw_only=True)

    def master(self, application: str) -> int:
        """Process id of the application's master, which is the Spark server."""
        found = [each for each in processes() if "ApplicationMaster" in each.command and application in each.command]
        (master,) = (each.pid for each in found if Path(f"/proc/{each.pid}/comm").read_text().strip() == "java")
        return master

    def nothing_is_left(self, run_id: str) -> None:
        """Of its server: no application, process or file."""
        assert self.yarn.active() == []
        assert self.server(run_id).application == ""
        assert list(self.job(run_id).path.glob("_server-*")) == []
        # A killed master does not delete what it was started with; it is its user's alone.
        assert {path.stat().st_mode & 0o777 for path in self.yarn.staging.rglob("application_*")} <= {0o700}
        wait_until(lambda: not [each for each in processes() if f"{self.folder}/yarn/local" in each.command])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder, began = tmp_path_factory.mktemp("yarn"), time.monotonic()
    yarn = YarnCluster.at(folder / "yarn")
    conf = {
        "spark.yarn.jars": f"local:{pyspark_folder()}/jars/*",
        "spark.yarn.stagingDir": f"file://{yarn.staging}",
        "spark.yarn.appMasterEnv.PYSPARK_PYTHON": sys.executable,
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.executorEnv.SPARK_LOCAL_IP": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.memory": "640m",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
    }
    env = {**yarn.environment, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": QUICK}
    with yarn.started(), Place.started(folder, {"CLUSTER": yarn.connection}, conf, env, yarn=yarn) as airflow:
        print(f"YARN and Airflow are up after {time.monotonic() - began:.0f} s", flush=True)
        yield airflow


def test_a_day_is_right_its_token_is_nowhere_and_nothing_is_left(place: Place) -> None:
    with place.held(0) as run_id:
        (application,) = place.yarn.active()
        assert place.server(run_id).application == application
        pages = place.yarn.pages()
        assert any("launch_container.sh" in each for each in pages), sorted(pages)
        place.look_for_token(run_id, {**pages, **place.environments()}, r"/__spark_conf__")
    place.ends_right(run_id, 0)
    place.nothing_is_left(run_id)


def test_a_killed_master_is_told_and_a_cleared_start_server_brings_another(place: Place) -> None:
    with place.held(2) as run_id:
        killed = place.server(run_id).application
        os.kill(place.master(killed), signal.SIGKILL)
        place.replace_server(run_id)
    place.ends_right(run_id, 2)
    assert [each["state"] for each in place.yarn.applications() if each["id"] == killed] == ["FAILED"]
    assert set(place.tries(run_id, "revenue.orders.run").values()) == {1}
    place.nothing_is_left(run_id)


def test_a_submitter_that_is_killed_leaves_a_server_that_its_next_try_takes(place: Place) -> None:
    run_id = place.start(5)
    wait_until(lambda: bool(place.yarn.active()), SECONDS)
    assert place.server(run_id).application == ""
    killed = place.kill_task(run_id, START)
    (application,) = place.yarn.active()
    place.ends_right(run_id, 5)
    assert application in place.log(run_id, START)
    assert {"KILLED"} == {each["state"] for each in place.yarn.applications() if each["id"] == application}
    print(f"processes {killed} were killed while {application} was submitted; it was taken over", flush=True)
    place.nothing_is_left(run_id)


def test_a_full_queue_is_told_and_waited_for(place: Place) -> None:
    with place.held(1) as first:
        second = place.start(3)
        place.wait_for(second, START, "running", "up_for_reschedule")
        wait_until(lambda: "AM resource limit exceeded" in place.log(second, START), SECONDS)
    place.ends_right(first, 1)
    place.ends_right(second, 3)
    told = next(line for line in place.log(second, START).splitlines() if "AM resource limit exceeded" in line)
    print(f"{second}: {told[:400]}", flush=True)
    place.nothing_is_left(second)


def test_a_restarted_manager_costs_no_try_and_one_range_is_cleared_alone(place: Place) -> None:
    with place.held(4) as run_id:
        place.yarn.manager.kill()
        place.yarn.manager.start()
        place.yarn.wait_for_node()
    place.ends_right(run_id, 4)
    assert place.retries(run_id) == 0
    place.nothing_is_left(run_id)
    former = {each["id"] for each in place.yarn.applications()}
    clear_task(place.api, place.dag_id, run_id, JOIN, map_index=0)
    place.ends_right(run_id, 4)
    assert len({each["id"] for each in place.yarn.applications()} - former) == 1  # its server, started for the range
    tries = place.tries(run_id, JOIN)
    assert tries.pop(0) == 2
    assert set(tries.values()) | set(place.tries(run_id, "revenue.orders.run").values()) == {1}
    place.nothing_is_left(run_id)
