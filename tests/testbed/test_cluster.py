"""The whole cluster as a user runs it: up, its health checks, a run on both Spark workers, a crash, down."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pytest
from pyiceberg.catalog import load_catalog

from airflow_abs.demo.airflow_api import ENDED, AirflowApi, AirflowApiError
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import verify
from testbed.folder import place_of
from testbed.topology.airflow import airflow_environment
from testbed.topology.place import WORKERS, Place
from testbed.topology.services import services
from tests.task_instances import wait_for_task
from tests.testbed.compose import compose_place
from tests.testbed.holders import holders_of_triggers
from tests.testbed.rescaling import follow_the_slots
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.cluster, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
DAY = date(2026, 1, 2)
DERIVED = 5
FILES = 2
ROWS_PER_FILE = 250  # 25 s each: longer than it takes to take a dead triggerer's triggers over
# A killed triggerer's triggers are taken over after 10 s instead of 30.
SETTINGS = {"TRIGGERER__JOB_HEARTBEAT_SEC": "1", "TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10"}


def cluster(action: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "testbed", "cluster", action, "--folder", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=ROOT)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Not below pytest's own: root's is closed to the user that PostgreSQL runs as."""
    made = Path(tempfile.mkdtemp(prefix="airflow-abs-cluster-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def up(folder: Path) -> Iterator[str]:
    """The cluster is up; what `up` printed."""
    dags = folder / "dags"
    dags.mkdir()
    for example in ("daily_revenue.py", "iceberg_revenue.py"):
        shutil.copy(ROOT / "dags" / example, dags)
    shutil.copy(ROOT / "tests" / "services" / "dags" / "slow.py", dags)
    settings = [word for name, value in SETTINGS.items() for word in ("--env", f"AIRFLOW__{name}={value}")]
    done = cluster("up", folder, "--dags-folder", str(dags), *settings)
    try:
        assert done.returncode == 0, done.stdout + done.stderr
        yield done.stdout
    finally:
        cluster("down", folder)


@pytest.fixture(scope="module")
def ports(up: str, folder: Path) -> dict[str, int]:
    return dict(json.loads((folder / "cluster.json").read_text())["ports"])


@pytest.fixture(scope="module")
def api(ports: dict[str, int]) -> Iterator[AirflowApi]:
    with closing(AirflowApi(f"http://127.0.0.1:{ports['api-server']}")) as client:
        yield client


def processes_of(folder: Path) -> dict[int, str]:
    """Command lines of the processes that live in the folder, by their arguments or their environment."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            arguments, environment = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
            if str(folder).encode() in arguments + environment and int(process.name) != os.getpid():
                found[int(process.name)] = arguments.replace(b"\0", b" ").decode()
    return found


def read_json(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=120) as answer:  # noqa: S310
        return json.load(answer)


def executors(ports: dict[str, int]) -> dict[str, int]:
    """Spark tasks that each worker's executor has run, by the worker's page."""
    found = read_json(f"{application(ports)}/executors")
    return {
        each["executorLogs"]["stdout"].split("/")[2]: each["totalTasks"] for each in found if each["id"] != "driver"
    }


def spark_jobs(ports: dict[str, int]) -> Counter[str]:
    """How many Spark jobs each operation of a subtask has had (their ids are derived, not random), by id."""
    tags = [tag for job in read_json(f"{application(ports)}/jobs") for tag in job["jobTags"] if "_Operation_" in tag]
    ids = (tag.rpartition("_")[2] for tag in tags)
    return Counter(each for each in ids if UUID(each).version == DERIVED)


def application(ports: dict[str, int]) -> str:
    """Where the REST API tells of the Connect server, the only application of this cluster."""
    (only,) = read_json(f"http://127.0.0.1:{ports['spark-master-ui']}/json/")["activeapps"]
    return f"http://127.0.0.1:{ports['spark-connect-ui']}/api/v1/applications/{only['id']}"


def holder_of_trigger(folder: Path) -> int:
    """The process group of the triggerer that writes a deferred task's log."""
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline:
        for group in holders_of_triggers(folder):
            return group
        time.sleep(0.2)
    raise AssertionError("no triggerer has a deferred task's log open")


def test_every_service_of_the_topology_runs_and_its_own_health_check_passes(up: str, folder: Path) -> None:
    assert "the cluster is up" in up
    asked = cluster("status", folder)
    assert asked.returncode == 0, asked.stdout
    healthy = [line.split()[0] for line in asked.stdout.splitlines() if line.endswith(" healthy")]
    assert healthy == [name for name, service in services(compose_place()).items() if service.health]


def test_what_the_compose_file_starts_has_been_started_here_with_the_same_command(
    up: str, ports: dict[str, int], folder: Path
) -> None:
    """Every log begins with the command of the program; a test of the compose file holds it to the same description."""
    described = services(place_of(folder, folder / "dags", ports))
    logs = {path.stem: path for path in [*folder.glob("logs/*.log"), *folder.glob("airflow/services/*.log")]}
    logs["airflow-init"] = logs.pop("db-migrate")
    for name, service in described.items():
        (started,) = [line for line in logs[name].read_text(errors="replace").splitlines() if line.startswith("$ ")]
        assert started.endswith(shlex.join(service.command)), name


def test_everything_listens_on_loopback_only(up: str, folder: Path) -> None:
    ours = set(map(str, processes_of(folder)))
    listed = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout.splitlines()
    mine = [line.split()[3] for line in listed if any(f"pid={pid}," in line for pid in ours)]
    assert len(mine) > 10
    assert [each for each in mine if not each.startswith(("127.0.0.1:", "[::ffff:127.0.0.1]:"))] == []


def test_a_run_is_right_and_spreads_over_both_workers(api: AirflowApi, ports: dict[str, int], folder: Path) -> None:
    data = folder / "shared" / "data"
    shutil.rmtree(data)  # the example's days are larger than this needs
    generate(DataSpec(data, (DAY,), 0.02, None))
    runs = {}
    for dag_id in ("daily_revenue", "iceberg_revenue"):
        api.wait_for_dag(dag_id, SECONDS)
        runs[dag_id] = api.trigger_run(dag_id, datetime(2026, 1, 3, tzinfo=UTC))
    assert {dag_id: api.wait_for_run(dag_id, run_id, SECONDS) for dag_id, run_id in runs.items()} == {
        "daily_revenue": "success",
        "iceberg_revenue": "success",
    }
    verdict = verify("daily_revenue", DAY, data, folder / "shared" / "mart" / "daily_revenue" / f"ds={DAY}")
    assert (verdict.rows, verdict.problem) == (5, None)
    tasks = executors(ports)
    assert set(tasks) == {f"127.0.0.1:{ports[f'spark-worker-{number}-ui']}" for number in (1, 2)}
    assert all(count > 0 for count in tasks.values()), tasks
    check_iceberg_rows(place_of(folder, folder / "dags", ports), data, runs["iceberg_revenue"])


def check_iceberg_rows(place: Place, data: Path, run_id: str) -> None:
    """The other example's tables, in the catalog that its connection leads to, which is in PostgreSQL."""
    properties = json.loads(airflow_environment(place)["AIRFLOW_CONN_LAKE"])["extra"]
    assert properties["uri"].startswith("postgresql")
    expected = duckdb.sql(
        f"SELECT region, count(*) AS orders, sum(amount) AS revenue FROM read_parquet('{data}/orders/*/*.parquet') "
        f"JOIN '{data}/customers/*.parquet' USING (customer_id) WHERE status IN ('F', 'O') GROUP BY ALL"
    ).fetchall()
    with closing(load_catalog("lake", **properties)) as catalog:
        for name, job in (("by_day", "day"), ("by_month", "month")):
            table = catalog.load_table(f"revenue.{name}")
            found = table.scan().to_arrow().select(["region", "orders", "revenue"]).to_pylist()
            assert sorted(tuple(row.values()) for row in found) == sorted(expected), name
            snapshots = [each.summary.get("airflow-abs.run") for each in table.snapshots()]
            assert [each.partition(":")[2] for each in snapshots] == [f"iceberg_revenue/{run_id}/{job}"]


def start_slow_run(api: AirflowApi, folder: Path, day: int) -> str:
    """A run of two subtasks of half a minute each, both of them handed over to a triggerer; its id."""
    lake = folder / "shared" / "data" / "numbers"
    lake.mkdir(parents=True, exist_ok=True)
    for part in range(FILES):
        rows = f"SELECT range AS number FROM range({part * ROWS_PER_FILE}, {(part + 1) * ROWS_PER_FILE})"
        duckdb.sql(f"COPY ({rows}) TO '{lake}/part-{part}.parquet'")
    api.wait_for_dag("slow", SECONDS)
    run_id = api.trigger_run("slow", datetime(2026, 3, day, tzinfo=UTC))
    for index in range(FILES):
        wait_for_task(api, "slow", run_id, "job.numbers.run", {"deferred"}, SECONDS, map_index=index)
    return run_id


def assert_right_and_submitted_once(
    api: AirflowApi, ports: dict[str, int], folder: Path, run_id: str, before: Counter[str]
) -> None:
    assert api.run_state("slow", run_id) == "success"
    subtasks = [each for each in api.task_instances("slow", run_id) if each.task_id == "job.numbers.run"]
    assert [(each.map_index, each.state, each.try_number) for each in subtasks] == [
        (index, "success", 1) for index in range(FILES)
    ]
    assert sorted((spark_jobs(ports) - before).values()) == [1] * FILES
    ((count, total),) = duckdb.sql(
        f"SELECT count(*), sum(number) FROM '{folder}/shared/mart/slow/*.parquet'"
    ).fetchall()
    expected = FILES * ROWS_PER_FILE
    assert (count, total) == (expected, sum(range(1, expected + 1)))


def test_the_other_triggerer_takes_over_and_nothing_is_submitted_twice(
    api: AirflowApi, ports: dict[str, int], folder: Path
) -> None:
    before = spark_jobs(ports)
    run_id = start_slow_run(api, folder, day=1)
    os.killpg(holder_of_trigger(folder), signal.SIGKILL)
    assert api.wait_for_run("slow", run_id, SECONDS) == "success"
    assert_right_and_submitted_once(api, ports, folder, run_id, before)


def test_the_scheduler_the_database_and_all_spark_workers_end_in_mid_run_and_are_started_again(
    api: AirflowApi, ports: dict[str, int], folder: Path
) -> None:
    """What the executors did runs again inside of the same operations, which wait until there is an executor."""
    before = spark_jobs(ports)
    run_id = start_slow_run(api, folder, day=2)
    for words, number in (
        *((f"--work-dir {folder}/work/{name} ", signal.SIGKILL) for name in WORKERS),
        ("airflow scheduler", signal.SIGKILL),
        (f"port={ports['postgres']} ", signal.SIGINT),  # as an administrator restarts it
    ):
        os.killpg(os.getpgid(next(pid for pid, told in processes_of(folder).items() if words in told)), number)
    deadline = time.monotonic() + SECONDS
    while state_of("slow", run_id, api) not in ENDED:
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert_right_and_submitted_once(api, ports, folder, run_id, before)
    while api.health()["scheduler"]["status"] != "healthy" or len(executors(ports)) < len(WORKERS):
        assert time.monotonic() < deadline
        time.sleep(0.5)


def state_of(dag_id: str, run_id: str, api: AirflowApi) -> str:
    try:
        return api.run_state(dag_id, run_id)
    except AirflowApiError:  # its database is being restarted
        return ""


def test_a_stream_follows_slots_that_come_and_go_and_loses_and_doubles_nothing(
    up: str, ports: dict[str, int], folder: Path
) -> None:
    place = folder / "shared" / "stream"
    place.mkdir()
    report = follow_the_slots(place_of(folder, folder / "dags", ports), place)
    assert [slots for slots in report.slots if slots != 3] == [2, 4, 2]
    assert max(report.files[0]) == 2
    # Spark counts the rows of a task twice that runs again when its worker has gone.
    assert 4 in report.files[report.slots.index(4)]
    assert report.found == report.expected


def test_down_leaves_nothing(up: str, folder: Path) -> None:
    assert len(processes_of(folder)) > 15
    assert cluster("down", folder).stdout == "the cluster is down\n"
    deadline = time.monotonic() + 150
    while left := processes_of(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)
    assert cluster("status", folder).returncode == 1
    assert cluster("down", folder).stdout == f"no cluster was running (folder {folder})\n"
