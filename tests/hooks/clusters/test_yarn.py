"""YARN behind a small server that answers as a resource manager does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from airflow_abs.hooks.clusters import ServerStart
from airflow_abs.hooks.clusters import yarn as module
from airflow_abs.hooks.clusters.yarn import Yarn
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS
from tests.hooks.clusters.conftest import Submitted

APPS, INFO = "/ws/v1/cluster/apps", "/ws/v1/cluster/info"


class ResourceManager(ThreadingHTTPServer):
    """Answers by path; as often as it is `away`, with 503 before that."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: dict[str, Any] = {INFO: {"clusterInfo": {"haState": "ACTIVE"}}}
        self.recovering: list[str] = []
        self.changes: list[tuple[str, Any]] = []
        self.away = 0


class _Handler(BaseHTTPRequestHandler):
    server: ResourceManager

    def do_GET(self) -> None:
        if self.server.away:
            self.server.away -= 1
            self._answer(503, {})
        else:
            found = self.server.answers.get(self.path)
            if self.server.recovering:
                found = {"clusterInfo": {"haState": self.server.recovering.pop()}} if self.path == INFO else None
            self._answer(404 if found is None else 200, found or {"RemoteException": {}})

    def do_PUT(self) -> None:
        change = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.changes.append((self.path, change))
        self._answer(202, change)

    def _answer(self, status: int, body: Any) -> None:
        raw = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def manager() -> Iterator[ResourceManager]:
    with ResourceManager() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def yarn(manager: ResourceManager, cluster_at: Any) -> Yarn:
    found = cluster_at("yarn", yarn_resourcemanager_webapp_address=f"127.0.0.1:{manager.server_port}")
    assert isinstance(found, Yarn)
    return found


def test_the_token_is_in_the_file_that_the_applications_user_alone_can_read(
    yarn: Yarn, start: ServerStart, submitted: Submitted
) -> None:
    assert yarn.submit(start) == "submitted-1"
    assert submitted.application.main_class == SERVER_CLASS
    assert submitted.settings["spark.connect.authenticate.token"] == start.token
    assert not [name for name in submitted.settings if name.startswith("spark.yarn.appMasterEnv")]
    assert submitted.token is None
    assert submitted.settings["spark.yarn.maxAppAttempts"] == "1"


def test_an_authors_tags_stay_and_a_start_is_found_again_by_its_own(
    yarn: Yarn, manager: ResourceManager, start: ServerStart, submitted: Submitted
) -> None:
    start.conf["spark.yarn.tags"] = "team=etl"  # type: ignore[index]
    yarn.submit(start)
    assert submitted.settings["spark.yarn.tags"] == "team=etl,airflow-abs-ab12"
    query = f"{APPS}?applicationTags=airflow-abs-ab12&states=ACCEPTED,NEW,NEW_SAVING,RUNNING,SUBMITTED"
    manager.answers[query] = {"apps": None}
    assert yarn.find("ab12") is None
    manager.answers[query] = {"apps": {"app": [{"id": "application_1_0002"}]}}
    assert yarn.find("ab12") == "application_1_0002"


def test_a_full_queue_is_told_in_the_managers_words(yarn: Yarn, manager: ResourceManager) -> None:
    diagnostics = "[Wed] Application is added to the scheduler\n and is not yet activated."
    manager.answers[f"{APPS}/application_1"] = {"app": {"state": "ACCEPTED", "diagnostics": diagnostics}}
    state = yarn.state("application_1")
    assert state.is_active
    assert str(state) == "ACCEPTED ([Wed] Application is added to the scheduler and is not yet activated.)"


def test_executors_are_its_containers_but_its_own_and_what_it_still_asks_for(
    yarn: Yarn, manager: ResourceManager
) -> None:
    about: dict[str, Any] = {
        "id": "application_1",
        "queue": "etl",
        "queueUsagePercentage": 99.6,
        "runningContainers": 3,
    }
    manager.answers[f"{APPS}/application_1"] = {"app": about}
    assert str(yarn.executors("application_1")) == "2 executors run"
    hosts = [{"resourceName": name, "numContainers": 4} for name in ("*", "rack", "host")]
    about |= {"runningContainers": 1, "resourceRequests": hosts}
    assert str(yarn.executors("application_1")) == "0 executors run, 4 wait: its queue 'etl' is full to 100 %"
    assert yarn.executors("application_2") is None  # forgotten, or not known yet after a restart


@pytest.mark.parametrize("word", ["FINISHED", "FAILED", "KILLED"])
def test_one_that_ended_is_not_active(yarn: Yarn, manager: ResourceManager, word: str) -> None:
    manager.answers[f"{APPS}/application_1"] = {"app": {"state": word, "diagnostics": ""}}
    assert (yarn.state("application_1").is_active, str(yarn.state("application_1"))) == (False, word)


def test_one_that_the_manager_has_forgotten_is_unknown_and_ending_it_is_no_error(yarn: Yarn) -> None:
    assert str(yarn.state("application_1")) == "UNKNOWN"
    yarn.kill("application_1")


def test_it_is_killed_by_rest(yarn: Yarn, manager: ResourceManager) -> None:
    yarn.kill("application_1")
    assert manager.changes == [(f"{APPS}/application_1/state", {"state": "KILLED"})]


def test_a_manager_that_restarts_is_waited_for(yarn: Yarn, manager: ResourceManager) -> None:
    manager.answers[f"{APPS}/application_1"] = {"app": {"state": "RUNNING"}}
    manager.away = 2
    assert yarn.state("application_1").is_active


def test_a_manager_that_does_not_know_its_applications_yet_has_not_forgotten_them(
    yarn: Yarn, manager: ResourceManager
) -> None:
    manager.answers[f"{APPS}/application_1"] = {"app": {"state": "RUNNING"}}
    manager.recovering = ["INITIALIZING", "INITIALIZING"]
    assert yarn.state("application_1").is_active


def test_one_that_never_comes_to_know_them_is_named(
    yarn: Yarn, manager: ResourceManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RECOVERY_SECONDS", 0.0)
    manager.recovering = ["STANDBY"]
    with pytest.raises(ConnectServerUnreachableError, match="has been STANDBY for 0 s, so it does not know its"):
        yarn.state("application_1")


def test_one_that_stays_away_is_named(yarn: Yarn, manager: ResourceManager) -> None:
    yarn.repeats, manager.away = 0, 1
    with pytest.raises(ConnectServerUnreachableError) as caught:
        yarn.state("application_1")
    told = str(caught.value)
    assert told.startswith(
        f"no answer from the resource manager of YARN at http://127.0.0.1:{manager.server_port}{APPS}/application_1: "
    )
    assert told.endswith(
        "; check yarn_resourcemanager_webapp_address in the extra of the connection, and that it is up"
    )
    assert caught.value.restartable
