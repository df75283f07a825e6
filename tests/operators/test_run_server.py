"""Setup and teardown of a run's server, on an invented cluster manager."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from airflow.sdk.exceptions import AirflowRescheduleException
from structlog.testing import capture_logs

from airflow_abs import Ephemeral
from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.server_record import RunServer, read_server
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_abs.hooks.clusters import ApplicationState, ServerStart
from airflow_abs.operators import run_server
from airflow_abs.operators.release import ReleaseOperator
from airflow_abs.operators.run_server import StartServerOperator, StopServerOperator
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError

CONTEXT: Any = {"dag_run": SimpleNamespace(dag_id="dag", run_id="run")}


class Cluster:
    """A cluster manager in memory: state by driver, key by driver, and what was asked of it."""

    states: ClassVar[dict[str, str]] = {}
    keys: ClassVar[dict[str, str]] = {}
    announces: ClassVar[bool] = True
    reason: ClassVar[str] = ""
    dies: ClassVar[bool] = False
    executors_are: ClassVar[Executors | Exception | None] = None

    def submit(self, start: ServerStart) -> str:
        driver = f"driver-{len(self.states)}"
        self.states[driver], self.keys[start.key] = "RUNNING", driver
        if self.dies:
            raise KeyboardInterrupt
        return driver

    def find(self, key: str) -> str | None:
        driver = self.keys.get(key)
        return driver if driver is not None and self.state(driver).is_active else None

    def state(self, application: str) -> ApplicationState:
        word = self.states[application]
        return ApplicationState(word, word == "RUNNING", self.reason)

    def address(self, application: str, folder: JobFolder, key: str) -> tuple[str, int] | None:
        assert self.keys[key] == application
        return ("localhost", 4711) if self.announces else None

    def executors(self, application: str) -> Executors | None:
        if isinstance(self.executors_are, Exception):
            raise self.executors_are
        return self.executors_are

    def kill(self, application: str) -> None:
        self.states[application] = "KILLED"

    def abort(self) -> None:
        pass


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[Cluster]:
    """Its servers answer as soon as they are asked; a worker waits for no time at all."""
    for name in ("clusters", "run_server"):
        monkeypatch.setattr(f"airflow_abs.hooks.{name}.open_cluster", {"cluster": Cluster()}.__getitem__)
    monkeypatch.setattr("airflow_abs.spark.connect.endpoint.probe_blocking", lambda endpoint: "4.2.0")
    monkeypatch.setattr(run_server, "_WORKER_SECONDS", 0.0)
    as_new = {"states": {}, "keys": {}, "announces": True, "reason": "", "dies": False, "executors_are": None}
    for name, value in as_new.items():
        monkeypatch.setattr(Cluster, name, value)
    monkeypatch.setenv("AIRFLOW_CONN_RUN_SPARK", '{"conn_type": "spark_connect", "password": "secret"}')
    return Cluster


def task(kind: Any, exchange: Path, conn_id: str = "run_spark", **options: Any) -> Any:
    server = Ephemeral("cluster", **options)
    return kind(task_id="task", exchange=str(exchange), job="job", conn_id=conn_id, ephemeral=True, server=server)


def record(exchange: Path) -> RunServer | None:
    return read_server(JobFolder(exchange, "dag", "run", "job"))


def test_a_server_that_runs_is_used_on_and_one_that_ended_is_replaced(tmp_path: Path, cluster: type[Cluster]) -> None:
    first = {"application": "driver-0", "address": "localhost:4711"}
    assert task(StartServerOperator, tmp_path).execute(CONTEXT) == first
    assert task(StartServerOperator, tmp_path).execute(CONTEXT) == first
    cluster.states["driver-0"] = "FAILED"
    assert task(StartServerOperator, tmp_path).execute(CONTEXT) == first | {"application": "driver-1"}
    assert cluster.states["driver-0"] == "KILLED"  # so that its manager keeps nothing of it


def test_one_that_does_not_answer_yet_keeps_no_worker_and_is_not_submitted_twice(
    tmp_path: Path, cluster: type[Cluster]
) -> None:
    cluster.announces = False
    for _ in range(2):
        with pytest.raises(AirflowRescheduleException):
            task(StartServerOperator, tmp_path).execute(CONTEXT)
    assert cluster.states == {"driver-0": "RUNNING"}


UNREADABLE = ConnectServerUnreachableError("403 Forbidden")


@pytest.mark.parametrize(
    ("executors", "level", "told"),
    [
        (Executors(2), "INFO", "Spark server driver-0: 2 executors run"),
        (Executors(0, 2, "no room"), "WARNING", "Spark server driver-0: 0 executors run, 2 wait: no room"),
        (None, "", ""),
        (UNREADABLE, "INFO", "cannot tell how many executors it has: 403 Forbidden"),
    ],
)
def test_executors_are_told_once_it_is_up(
    tmp_path: Path, cluster: type[Cluster], executors: Executors | Exception | None, level: str, told: str
) -> None:
    cluster.executors_are = executors
    with capture_logs() as logs:
        task(StartServerOperator, tmp_path).execute(CONTEXT)
    lines = [(each["log_level"].upper(), each["event"]) for each in logs if "executors" in each["event"]]
    assert lines == ([(level, told)] if told else [])


def test_whoever_waits_asks_the_clusters_manager_for_the_executors_of_the_runs_server(
    tmp_path: Path, cluster: type[Cluster], caplog: pytest.LogCaptureFixture
) -> None:
    task(StartServerOperator, tmp_path).execute(CONTEXT)
    endpoint = AdaptiveSparkHook("run_spark", JobFolder(tmp_path, "dag", "run", "job")).get_endpoint()
    assert endpoint.executors() is None  # as of a standalone master
    cluster.executors_are = Executors(0, 2, "no room")
    assert endpoint.executors() == Executors(0, 2, "no room")
    cluster.executors_are = UNREADABLE
    with caplog.at_level(logging.INFO):
        assert endpoint.executors() is None
    assert caplog.messages == ["cannot tell how many executors it has: 403 Forbidden"]


def test_one_that_does_not_answer_in_its_time_is_ended(tmp_path: Path, cluster: type[Cluster]) -> None:
    cluster.announces, cluster.reason = False, "the queue is full"
    with pytest.raises(ConnectServerUnreachableError) as caught:
        task(StartServerOperator, tmp_path, start_timeout=1e-9).execute(CONTEXT)
    assert str(caught.value) == (
        "Spark server driver-0 is RUNNING (the queue is full) and does not answer after 1e-09 s; give it room on the "
        "cluster, or raise start_timeout of Ephemeral"
    )
    assert cluster.states == {"driver-0": "KILLED"}


def test_one_whose_submitter_died_is_found_again(tmp_path: Path, cluster: type[Cluster]) -> None:
    cluster.dies = True
    with pytest.raises(KeyboardInterrupt):
        task(StartServerOperator, tmp_path).execute(CONTEXT)
    cluster.dies = False
    assert task(StartServerOperator, tmp_path).execute(CONTEXT)["application"] == "driver-0"
    task(StopServerOperator, tmp_path).execute(CONTEXT)
    assert cluster.states == {"driver-0": "KILLED"}


def test_one_whose_submitter_died_is_ended_with_the_run(tmp_path: Path, cluster: type[Cluster]) -> None:
    cluster.dies = True
    with pytest.raises(KeyboardInterrupt):
        task(StartServerOperator, tmp_path).execute(CONTEXT)
    task(StopServerOperator, tmp_path).execute(CONTEXT)
    assert cluster.states == {"driver-0": "KILLED"}


def test_whoever_kills_the_task_ends_the_server(tmp_path: Path, cluster: type[Cluster]) -> None:
    cluster.announces = False
    start = task(StartServerOperator, tmp_path)
    start.on_kill()  # before it did anything
    with pytest.raises(AirflowRescheduleException):
        start.execute(CONTEXT)
    start.on_kill()
    assert cluster.states == {"driver-0": "KILLED"}


def test_the_teardown_ends_it_once(tmp_path: Path, cluster: type[Cluster]) -> None:
    task(StopServerOperator, tmp_path).execute(CONTEXT)  # there never was one
    task(StartServerOperator, tmp_path).execute(CONTEXT)
    for _ in range(2):
        task(StopServerOperator, tmp_path).execute(CONTEXT)
    assert cluster.states == {"driver-0": "KILLED"}
    left = record(tmp_path)
    assert left is not None
    assert (left.application, left.host) == ("", "")


def test_release_ends_what_a_setup_that_failed_has_left(tmp_path: Path, cluster: type[Cluster]) -> None:
    cluster.announces = False
    with pytest.raises(AirflowRescheduleException):
        task(StartServerOperator, tmp_path).execute(CONTEXT)
    release = ReleaseOperator(
        task_id="release", task_ids=["job.plan"], exchange=str(tmp_path), job="job", conn_id="run_spark",
        ephemeral=True, server=Ephemeral("cluster"),
    )  # fmt: skip
    states = SimpleNamespace(get_task_states=lambda *_, **__: {"run": {"job.plan": "upstream_failed"}})
    assert release.execute({**CONTEXT, "ti": states}) == {"released_bytes": 0}
    assert cluster.states == {"driver-0": "KILLED"}


def test_without_a_password_nothing_is_submitted(
    tmp_path: Path, cluster: type[Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_OPEN", '{"conn_type": "spark_connect"}')
    with pytest.raises(ConnectAccessDeniedError, match="which has none; set it to a long random text"):
        task(StartServerOperator, tmp_path, conn_id="open").execute(CONTEXT)
    assert cluster.states == {}
