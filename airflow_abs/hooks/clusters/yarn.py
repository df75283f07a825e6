"""YARN: the server is the master of an application of its own, asked about at the resource manager's REST interface."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.server_record import prepare_start, read_announcement
from airflow_abs.hooks.clusters.manager import UNKNOWN, ApplicationState, ServerStart
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import (
    NO_JAR,
    TOKEN_SETTING,
    Application,
    announcing_properties,
    server_properties,
)
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS

_ACTIVE = frozenset({"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING"})
_CALL_SECONDS = 30
_REPEATS = 7
"""With waits that double from 1 s: two minutes, in which a restarted resource manager is back."""
_RECOVERY_SECONDS, _RECOVERY_POLL_SECONDS = 120.0, 0.5


@dataclass
class Yarn:
    """See `ClusterManager`. A resource manager that restarts is waited for."""

    submission: SparkSubmission
    repeats: int = field(default=_REPEATS)

    def submit(self, start: ServerStart) -> str:
        folder = prepare_start(start.folder, start.key)
        tags = [tag for tag in start.conf.get("spark.yarn.tags", "").split(",") if tag]
        settings = {
            **server_properties(start.conf, start.lifetime),
            **announcing_properties(uri_for_spark(folder)),
            # In the file with the settings, which only the application's user can read. An environment variable would
            # stand in the container's launch script, which the node manager shows to everybody.
            TOKEN_SETTING: start.token,
            "spark.yarn.tags": ",".join([*tags, _tag(start.key)]),
            # A second attempt would listen somewhere else, without the sessions of the first.
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.submit.waitAppCompletion": "false",
        }
        self.submission.run(start.name, Application(SERVER_CLASS, NO_JAR), settings, None)
        return self.submission.submitted

    def find(self, key: str) -> str | None:
        self._await_recovery()
        found = self._ask(f"/apps?applicationTags={_tag(key)}&states={','.join(sorted(_ACTIVE))}")
        applications = ((found or {}).get("apps") or {}).get("app") or []
        return str(applications[0]["id"]) if applications else None

    def state(self, application: str) -> ApplicationState:
        found = self._ask(f"/apps/{application}")
        if found is None:  # it was forgotten, or the resource manager has not read what it knew
            self._await_recovery()
            found = self._ask(f"/apps/{application}")
        if found is None:
            return UNKNOWN
        about = found["app"]
        word = str(about["state"])
        return ApplicationState(word, word in _ACTIVE, _one_line(str(about.get("diagnostics") or "")))

    def address(self, application: str, folder: JobFolder, key: str) -> tuple[str, int] | None:
        return read_announcement(folder, key)

    def executors(self, application: str) -> Executors | None:
        found = self._ask(f"/apps/{application}")
        if found is None:  # forgotten, or not read yet since the manager was restarted
            return None
        about = found["app"]
        asked = [each for each in about.get("resourceRequests") or () if each["resourceName"] == "*"]
        waiting = sum(int(each["numContainers"]) for each in asked)
        # One of the containers is the server's own.
        running = max(0, int(about.get("runningContainers", 0)) - 1)
        used = float(about.get("queueUsagePercentage") or 0)
        return Executors(running, waiting, f"its queue {about['queue']!r} is full to {used:.0f} %" if waiting else "")

    def kill(self, application: str) -> None:
        self._ask(f"/apps/{application}/state", {"state": "KILLED"})

    def abort(self) -> None:
        self.submission.abort()

    def _await_recovery(self) -> None:
        """Wait while a resource manager that was restarted answers, but does not know its applications yet.

        Raises:
            ConnectServerUnreachableError: it does not come to know them.
        """
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while (state := ((self._ask("/info") or {}).get("clusterInfo") or {}).get("haState")) != "ACTIVE":
            if time.monotonic() >= deadline:
                raise ConnectServerUnreachableError(
                    f"the resource manager of YARN at {self.submission.resource_manager} has been {state} for "
                    f"{_RECOVERY_SECONDS:g} s, so it does not know its applications; expected ACTIVE: check its log"
                )
            time.sleep(_RECOVERY_POLL_SECONDS)

    def _ask(self, path: str, change: dict[str, str] | None = None) -> dict[str, Any] | None:
        """The answer; None for what the resource manager does not know."""
        import requests

        url = f"{self.submission.resource_manager}/ws/v1/cluster{path}"
        try:
            answer = self._session.request("GET" if change is None else "PUT", url, json=change, timeout=_CALL_SECONDS)
            if answer.status_code == requests.codes.not_found:
                return None
            answer.raise_for_status()
            return dict(answer.json())
        except (requests.RequestException, ValueError) as error:
            raise ConnectServerUnreachableError(
                f"no answer from the resource manager of YARN at {url}: {type(error).__name__}: {error}; check "
                "yarn_resourcemanager_webapp_address in the extra of the connection, and that it is up"
            ) from error

    @cached_property
    def _session(self) -> Any:
        import requests
        from requests.adapters import HTTPAdapter
        from urllib3.util import Retry

        session = requests.Session()
        session.auth = self.submission.resource_manager_login
        away = Retry(self.repeats, backoff_factor=1, backoff_max=60, status_forcelist=(502, 503), allowed_methods=None)
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=away))
        return session


def _tag(key: str) -> str:
    return f"airflow-abs-{key}"


def _one_line(text: str) -> str:
    return " ".join(text.split())
