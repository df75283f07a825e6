"""The daily job on the cluster of docker-compose.yaml in real containers, which are killed, restarted and recreated.

`make test-compose` makes the images that the file starts from and runs this; `make test` and `make test-rest` leave
it out.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from airflow_abs.demo.airflow_api import AirflowApi, AirflowApiError
from testbed.places.compose import ComposeProject
from testbed.places.container_engine import running_engine
from testbed.topology.place import WORKERS
from tests.places.daily import JOIN, SECONDS, TARGET_BYTES, Daily
from tests.task_instances import clear_task
from tests.waiting import wait_until

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.services, pytest.mark.timeout(7200)]

RUNS = int(os.environ.get("AIRFLOW_ABS_RUNS") or "0")
AT_ONCE = 3
RUN_SECONDS = 1800.0
OF_SCENES = 6
"""Days. Airflow has one run of a logical date, so each scene and each of the runs has a day of its own."""
DAYS = tuple(date(2026, 1, 1) + timedelta(days=number) for number in range(OF_SCENES + RUNS))
AIRFLOW = ("api-server", "scheduler", "dag-processor", "triggerer-1", "triggerer-2", "worker")
SPARK = ("spark-master", "spark-worker-1", "spark-worker-2", "spark-connect")
COMMANDS = (
    "docker compose exec api-server airflow dags unpause daily_revenue",
    "docker compose exec api-server airflow backfill create --dag-id daily_revenue "
    "--from-date 2026-01-02 --to-date 2026-01-02",
)
"""Of the page: a run of the first day."""
PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
# What the scenes change: small ranges; losses are noticed earlier, but not while the api-server restarts.
OVERRIDE = {
    "AIRFLOW__ADAPTIVE_SPARK__TARGET_BYTES": str(TARGET_BYTES),
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "180",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "60",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
}


@dataclass(frozen=True, slots=True)
class Services:
    api: AirflowApi


@dataclass(frozen=True, slots=True)
class Place(Daily):
    project: ComposeProject = field(kw_only=True)

    def answers(self) -> bool:
        """Airflow's API and its database; a service may end some time after the one that it needs, and be restarted."""
        with suppress(AirflowApiError):
            self.api.request("GET", f"/dags/{self.dag_id}")
            return True
        return False

    def is_over(self, run_id: str) -> bool:
        """False, too, while Airflow's API is being restarted."""
        with suppress(AirflowApiError):
            return self.api.run_state(self.dag_id, run_id) in {"failed", "success"}
        return False


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComposeProject]:
    """Without secrets, and nothing runs."""
    with running_engine() as engine:
        found = ComposeProject.at(engine, tmp_path_factory.mktemp("compose") / "clone")
        try:
            yield found
        finally:
            if (found.folder / ".env").exists():
                found.run("down", "--volumes", "--timeout", "5")


@pytest.fixture(scope="module")
def place(project: ComposeProject) -> Iterator[Place]:
    shutil.copy(Path(__file__).parent / "dags" / "wrong_token.py", project.folder / "dags")
    project.make_secrets()
    (project.folder / "docker-compose.override.yaml").write_text(yaml.safe_dump(override(project)))
    began = time.monotonic()
    project.run("up", "--detach")
    print(f"docker compose up --detach took {time.monotonic() - began:.0f} s, with the build of the image", flush=True)
    project.wait_until_healthy()
    print(f"all containers are healthy {time.monotonic() - began:.0f} s after docker compose up", flush=True)
    shared = project.volume("shared")
    api = project.api()
    yield Place(Services(api), shared / "data", shared / "mart" / "daily_revenue", days=DAYS, project=project)
    api.close()


def override(project: ComposeProject) -> dict[str, object]:
    """What Compose merges by itself: settings of Airflow, and more days."""
    connection = json.loads(
        yaml.safe_load((project.folder / "docker-compose.yaml").read_text())["x-airflow-environment"][
            "AIRFLOW_CONN_SPARK_CONNECT_DEFAULT"
        ]
    )
    wrong = {"AIRFLOW_CONN_WRONG_TOKEN": json.dumps({**connection, "password": "another"})}
    days = ",".join(map(str, DAYS))
    generate = ["airflow-abs", "generate", "--out", "/shared/data", "--dates", days, "--scale", "0.02"]
    airflow = {name: {"environment": {**OVERRIDE, **wrong}} for name in AIRFLOW}
    return {"services": {**airflow, "example-data": {"command": generate}}}


def test_without_secrets_nothing_starts_and_redis_lets_nobody_in(project: ComposeProject) -> None:
    refused = project.ask("up", "--detach")
    assert refused.returncode != 0
    assert "run `make secrets` first" in refused.stderr
    project.make_secrets()
    shutil.rmtree(project.folder / "docker" / "secrets")  # a clone to which somebody brought .env alone
    half = project.ask("up", "--detach", "redis")
    assert half.returncode != 0
    assert "bind source path does not exist" in half.stderr
    assert project.states().get("redis") in {None, "created"}
    assert not (project.folder / "docker" / "secrets").exists()
    project.run("down", "--volumes")
    (project.folder / ".env").unlink()
    print(f"refused: {refused.stderr.strip()[:160]!r}, {half.stderr.strip()[-160:]!r}", flush=True)


def test_a_day_is_right_by_the_commands_of_the_page(place: Place) -> None:
    page = PAGE.read_text()
    place.api.wait_for_dag(place.dag_id, SECONDS)
    for command in COMMANDS:
        assert command in page
        place.project.run("exec", "-T", *command.split()[3:])
    wait_until(lambda: backfills(place) != [])
    (run_id,) = backfills(place)
    place.ends_right(run_id, 0)


def test_one_range_is_retried_alone(place: Place) -> None:
    run_id = place.start(1)
    place.ends_right(run_id, 1)
    clear_task(place.api, place.dag_id, run_id, JOIN, map_index=0)
    place.ends_right(run_id, 1)
    tries = place.tries(run_id, JOIN)
    assert tries.pop(0) == 2
    assert set(tries.values()) <= {1}


@pytest.mark.parametrize(
    ("services", "day"), [(("spark-master", "spark-worker-1"), 2), (("spark-connect",), 3), (("worker",), 4)]
)
def test_killed_containers_come_back_and_the_run_ends_right(place: Place, services: tuple[str, ...], day: int) -> None:
    """Spark's server has its executors again: a master that forgot it would give it none for the lost worker."""
    run_id = place.start(day)
    place.wait_for_join(run_id)
    for service in services:
        place.project.kill(service)
        back = place.project.wait_until_healthy()
        assert place.project.container(service)["RestartCount"] >= 1
        print(f"{run_id}: {service} was killed, and all were healthy again after {back:.0f} s", flush=True)
    wait_until(lambda: place.project.cores_in_use() == len(WORKERS), seen=place.project.cores_in_use)
    place.ends_right(run_id, day)


def test_spark_is_found_at_another_address(place: Place) -> None:
    """nginx asks the engine's name server again: `healthy` means that it reaches Spark."""
    project, before = place.project, place.project.address("spark-connect", "spark")
    run_id = place.start(5)
    place.wait_for_join(run_id)
    project.run("rm", "--force", "--stop", *SPARK)
    holder = ["run", "--detach", "--rm", "--network", project.network("spark")]
    for number in range(len(SPARK)):  # they hold the addresses that are free now
        project.engine.run(*holder, "--name", f"holder-{number}", "redis:7-bookworm", "sleep", "600")
    try:
        project.run("up", "--detach", "--no-deps", "--wait", *SPARK)
        after = project.address("spark-connect", "spark")
        assert after != before
        place.ends_right(run_id, 5)
        project.wait_until_healthy()
    finally:
        project.engine.run("rm", "--force", *(f"holder-{number}" for number in range(len(SPARK))))
    print(f"{run_id}: spark-connect was at {before} and is at {after}", flush=True)


def test_a_wrong_token_fails_and_says_so(place: Place) -> None:
    place.project.run("exec", "-T", "api-server", "airflow", "dags", "unpause", "wrong_token")
    run_id = place.start(0, dag_id="wrong_token")
    assert place.api.wait_for_run("wrong_token", run_id, SECONDS) == "failed"
    told = "\n".join(place.told(run_id, "wrong_token"))
    refused = "refuses user 'airflow' (Invalid authentication token); put the server's token into the connection"
    assert refused in told, told
    print(f"{run_id}: the server {refused}", flush=True)


@pytest.mark.skipif(RUNS == 0, reason="make test-compose RUNS=20 runs it")
def test_every_run_ends_right_while_containers_are_restarted_one_after_the_other(
    place: Place, subtests: pytest.Subtests
) -> None:
    """`AIRFLOW_ABS_RUNS` of them, three at once, those that end wrong told one by one; a container is killed and then
    stopped, the next one killed, each time until all is healthy.
    """
    place.api.wait_for_dag(place.dag_id, SECONDS)
    place.api.request("PATCH", f"/dags/{place.dag_id}", json={"is_paused": False})  # where this is the only scene
    began, restarts = time.monotonic(), 0
    waiting, running = [*range(OF_SCENES, len(DAYS))], dict[str, int]()
    turns = itertools.cycle(itertools.product(place.project.lasting(), (place.project.kill, place.project.restart)))
    while waiting or running:
        wait_until(place.answers)
        for day in waiting[: AT_ONCE - len(running)]:
            running[place.start(day, run_id=f"restarts-{day}")] = day
            waiting.remove(day)
        service, end = next(turns)
        end(service)
        restarts += 1
        back = place.project.wait_until_healthy()
        print(f"{time.monotonic() - began:.0f} s: {service} {end.__name__}, healthy after {back:.0f} s", flush=True)
        for run_id in [each for each in running if place.is_over(each)]:
            day = running.pop(run_id)
            with subtests.test(run_id):
                place.ends_right(run_id, day)
        assert time.monotonic() - began < RUNS * RUN_SECONDS / AT_ONCE, running
    print(f"{RUNS} runs, {restarts} containers ended, {time.monotonic() - began:.0f} s", flush=True)


def test_down_leaves_nothing(place: Place) -> None:
    place.project.run("down", "--volumes", "--timeout", "5")
    assert place.project.left() == []


def backfills(place: Place) -> list[str]:
    found = place.api.request("GET", f"/dags/{place.dag_id}/dagRuns")["dag_runs"]
    return [str(each["dag_run_id"]) for each in found if each["run_type"] == "backfill"]
