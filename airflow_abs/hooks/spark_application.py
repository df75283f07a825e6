"""A run's own Spark server as an application of a cluster, submitted by way of Airflow's connection of type `spark`.

The Spark provider's hook does the work; what is here is what it offers to its own operator only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import (
    TOKEN_VARIABLE,
    Manager,
    server_application,
    token_settings,
)
from airflow_abs.spark.server.embedded_state import write_private
from airflow_abs.spark.server.whole_spark import spark_submit

_ACTIVE = frozenset({"SUBMITTED", "RUNNING", "RELAUNCHING", "NEW", "NEW_SAVING", "ACCEPTED", "PENDING"})
_KILL_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 10.0
_POLL_SECONDS = 0.5
_CALL_SECONDS = 30
# Of the worker's environment: no secret of Airflow's leaves for the cluster with a legacy submission.
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "KUBECONFIG")
_KEPT_PREFIXES = ("SPARK_", "HADOOP_", "YARN_", "KRB5")


class ServerSubmitHook(SparkSubmitHook):
    """The provider's hook with the driver on the cluster, for one application that is left to itself.

    An application is named by what its cluster manager calls it: a driver id, an application id, or `namespace:pod`.

    Raises:
        ValueError: the connection names no cluster.
    """

    def __init__(self, conn_id: str) -> None:
        super().__init__(conn_id=conn_id, deploy_mode="cluster")
        self._yarn_track_via_rm_api = self._is_yarn
        self._track_driver_via_k8s_api = self._is_kubernetes

    @property
    def manager(self) -> Manager:
        master = self._connection["master"]
        if self._is_yarn:
            return "yarn"
        if self._is_kubernetes:
            return "kubernetes"
        if self._connection["rest_endpoint"]:
            return "standalone"
        raise ValueError(
            f"connection {self._conn_id!r} names the Spark master {master!r}; Ephemeral needs a connection of the type "
            "'spark' to one standalone master (spark://host), YARN or Kubernetes (k8s://...)"
        )

    def start(self, name: str, folder: ExchangePath, properties: Mapping[str, str], token: str) -> str:
        """Submit the server, and return the application; some seconds.

        Raises:
            AirflowException: spark-submit failed; with the end of what it said.
        """
        manager, master = self.manager, self._connection["master"]
        if manager == "kubernetes":
            self._validate_track_driver_via_k8s_api_config()  # a namespace has to be named
        application = server_application(manager, master, uri_for_spark(folder / "application.jar"))
        rest = str(master.endswith(f":{self._connection['rest_port']}")).lower()
        settings = {**properties, **token_settings(manager, token), "spark.master.rest.enabled": rest}
        self._name, self._java_class = name, application.main_class
        self._application_args = list(application.arguments)
        with tempfile.TemporaryDirectory() as temporary:
            # Not on the command line, which every user of the host can read.
            file = Path(temporary, "spark.properties")
            write_private(file, "".join(f"{key} {_escape(value)}\n" for key, value in sorted(settings.items())))
            self._properties_file = str(file)
            try:
                self.submit(application.jar, env=_environment() | {TOKEN_VARIABLE: token})
            finally:
                if self._submit_sp is not None:
                    self._submit_sp.stdout.close()  # the provider leaves it open
        return self._submitted()

    def state(self, application: str) -> str:
        """What its cluster manager says of it, in the manager's own words; "UNKNOWN" if it knows nothing of it."""
        match self.manager:
            case "standalone":
                answer = self._ask_master(f"/v1/submissions/status/{application}")
                return str(answer["driverState"]) if answer.get("success") else "UNKNOWN"
            case "yarn":
                return self.query_yarn_application_status(application)
            case "kubernetes":
                return self._pod_phase(application)

    def stop(self, application: str) -> None:
        """End it, and wait until it is gone. One that has ended already is fine.

        It is asked to end also if its cluster manager, in recovery itself, knows nothing of it now.

        Raises:
            ConnectServerUnreachableError: it is still there after a minute.
        """
        self.name_application(application)
        self.on_kill()
        started = asked = time.monotonic()
        while is_active(state := self.state(application)):
            now = time.monotonic()
            if now >= started + _KILL_SECONDS:
                raise ConnectServerUnreachableError(
                    f"Spark server {application} is still {state} after {_KILL_SECONDS:g} s of "
                    "asking it to end; end it at its cluster manager"
                )
            if now >= asked + _ASK_AGAIN_SECONDS:
                self.on_kill()
                asked = now
            time.sleep(_POLL_SECONDS)

    def _get_spark_binary_path(self) -> list[str]:
        """The provider takes for granted that the environment of this Python is on the PATH."""
        return [shutil.which(self._connection["spark_binary"]) or str(spark_submit("Ephemeral"))]

    def _submitted(self) -> str:
        if self._is_kubernetes:
            return f"{self._connection['namespace']}:{self._kubernetes_driver_pod}"
        return str(self._yarn_application_id if self._is_yarn else self._driver_id)

    def name_application(self, application: str) -> None:
        """What the provider's `on_kill` ends."""
        match self.manager:
            case "standalone":
                self._driver_id = application
            case "yarn":
                self._yarn_application_id = application
            case "kubernetes":
                self._connection["namespace"], _, self._kubernetes_driver_pod = application.partition(":")

    def _ask_master(self, path: str) -> dict[str, Any]:
        import requests

        url = self._connection["rest_endpoint"]
        try:
            return dict(requests.get(f"{url}{path}", timeout=_CALL_SECONDS).json())
        except (requests.RequestException, ValueError) as error:
            raise ConnectServerUnreachableError(
                f"no REST submission server of a Spark master at {url}: {type(error).__name__}: {error}; start the "
                "master with spark.master.rest.enabled=true, and name its port as rest-port in the connection's extra"
            ) from error

    def _pod_phase(self, application: str) -> str:
        from airflow.providers.cncf.kubernetes import kube_client

        namespace, _, pod = application.partition(":")
        try:
            return str(kube_client.get_kube_client().read_namespaced_pod(pod, namespace).status.phase or "Pending")
        except kube_client.ApiException as error:
            if error.status == 404:
                return "UNKNOWN"
            raise


def is_active(state: str) -> bool:
    """Whether an application in this state, of any cluster manager, runs or will."""
    return state.upper() in _ACTIVE


def _environment() -> dict[str, str]:
    kept = (name for name in os.environ if name in _KEPT or name.startswith(_KEPT_PREFIXES))
    return {name: os.environ[name] for name in kept}


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
