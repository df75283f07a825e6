"""A standalone Spark master: the server is a driver on one of its workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.server_record import prepare_start, read_announcement
from airflow_abs.hooks.clusters.manager import UNKNOWN, ApplicationState, ServerStart
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import (
    Application,
    announcing_properties,
    server_properties,
)
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS

# spark-submit refuses the server's class in cluster mode. This one of Spark's own calls the class that it is given; the
# worker puts in its address and the jar that it has fetched.
_WRAPPER_CLASS = "org.apache.spark.deploy.worker.DriverWrapper"
_ACTIVE = frozenset({"SUBMITTED", "RUNNING", "RELAUNCHING"})
_CALL_SECONDS = 30


@dataclass(slots=True)
class Standalone:
    """See `ClusterManager`. The master's REST server has to be on."""

    submission: SparkSubmission

    def submit(self, start: ServerStart) -> str:
        folder = prepare_start(start.folder, start.key)
        jar = uri_for_spark(folder / "application.jar")
        application = Application(_WRAPPER_CLASS, jar, ("{{WORKER_URL}}", "{{USER_JAR}}", SERVER_CLASS))
        settings = {
            **server_properties(start.conf, start.lifetime),
            **announcing_properties(uri_for_spark(folder)),
            "spark.master.rest.enabled": str(self.submission.is_rest).lower(),
        }
        self.submission.run(start.name, application, settings, start.token)
        return self.submission.submitted

    def find(self, key: str) -> str | None:
        return None  # the master's REST server knows drivers by their ids alone

    def state(self, application: str) -> ApplicationState:
        answer = self._ask(f"/v1/submissions/status/{application}")
        if not answer.get("success"):
            return UNKNOWN
        word = str(answer["driverState"])
        return ApplicationState(word, word in _ACTIVE, str(answer.get("message") or ""))

    def address(self, application: str, folder: JobFolder, key: str) -> tuple[str, int] | None:
        return read_announcement(folder, key)

    def executors(self, application: str) -> Executors | None:
        return None  # the master's REST server knows drivers alone

    def kill(self, application: str) -> None:
        self.submission.kill_driver(application)

    def abort(self) -> None:
        self.submission.abort()

    def _ask(self, path: str) -> dict[str, Any]:
        import requests

        url = self.submission.rest_endpoint
        try:
            return dict(requests.get(f"{url}{path}", timeout=_CALL_SECONDS).json())
        except (requests.RequestException, ValueError) as error:
            raise ConnectServerUnreachableError(
                f"no REST submission server of a Spark master at {url}: {type(error).__name__}: {error}; start the "
                "master with spark.master.rest.enabled=true, and name its port as rest-port in the connection's extra"
            ) from error
