"""Calls `spark-submit` by way of Airflow's connection of type `spark`; the Spark provider's hook does the work."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.spark.server import parent_death
from airflow_abs.spark.server.application import TOKEN_VARIABLE, Application
from airflow_abs.spark.server.embedded_state import write_private
from airflow_abs.spark.server.whole_spark import spark_submit

_PROVIDER = "apache-airflow-providers-apache-spark"
_SINCE = (6, 3)
"""Older ones do not follow applications by the APIs of YARN and Kubernetes."""

# Of the worker's environment: no secret of Airflow's leaves for the cluster with a legacy submission.
_KEPT = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME", "KUBECONFIG")
_KEPT_PREFIXES = ("SPARK_", "HADOOP_", "YARN_", "KRB5")


class SparkSubmission(SparkSubmitHook):
    """The provider's hook with the driver on the cluster, for one application that is left to itself.

    Raises:
        InvalidValueError: the provider is too old.
    """

    def __init__(self, conn_id: str) -> None:
        found = version(_PROVIDER)
        if tuple(map(int, found.split(".")[:2])) < _SINCE:
            raise InvalidValueError(
                f"connection {conn_id!r}: {_PROVIDER} {found} cannot start a Spark server on a cluster; "
                f"pip install '{_PROVIDER}>={_SINCE[0]}.{_SINCE[1]}'"
            )
        super().__init__(conn_id=conn_id, deploy_mode="cluster")
        self._yarn_track_via_rm_api = self._is_yarn
        self._track_driver_via_k8s_api = self._is_kubernetes

    @property
    def conn_id(self) -> str:
        return str(self._conn_id)

    @property
    def master(self) -> str:
        return str(self._connection["master"])

    @property
    def namespace(self) -> str | None:
        """Of Kubernetes."""
        return self._connection["namespace"] or None

    @property
    def rest_endpoint(self) -> str | None:
        """Of a standalone master."""
        return self._connection["rest_endpoint"] or None

    @property
    def is_rest(self) -> bool:
        """Whether the connection names the port of the master's REST server, not its legacy one."""
        return self.master.endswith(f":{self._connection['rest_port']}")

    @property
    def resource_manager(self) -> str:
        """URL of YARN's.

        Raises:
            ValueError: the connection has none.
        """
        return str(self._get_yarn_rm_base_url())

    @property
    def resource_manager_login(self) -> Any:
        """What `requests` authenticates with there, None without Kerberos."""
        return self._resolved_yarn_rm_auth

    @property
    def extra(self) -> Mapping[str, Any]:
        """Of the connection."""
        return dict(self.get_connection(self._conn_id).extra_dejson)

    def run(self, name: str, application: Application, settings: Mapping[str, str], token: str | None) -> None:
        """Submit, and return once the cluster has the application.

        Args:
            token: an environment variable for spark-submit, which some managers pass on; None for none.

        Raises:
            AirflowException: spark-submit failed; with the end of what it said.
        """
        self._name, self._java_class = name, application.main_class
        self._application_args = list(application.arguments)
        with tempfile.TemporaryDirectory() as temporary:
            # Not on the command line, which every user of the host can read.
            file = Path(temporary, "spark.properties")
            write_private(file, "".join(f"{key} {_escape(value)}\n" for key, value in sorted(settings.items())))
            self._properties_file = str(file)
            try:
                self.submit(application.jar, env=_environment() | ({TOKEN_VARIABLE: token} if token else {}))
            finally:
                if self._submit_sp is not None:
                    self._submit_sp.stdout.close()  # the provider leaves it open

    @property
    def submitted(self) -> str:
        """What the cluster called the application that `run` submitted, for standalone clusters and YARN."""
        return str(self._yarn_application_id if self._is_yarn else self._driver_id)

    def kill_driver(self, driver: str) -> None:
        """Ask a standalone master to end a driver."""
        self._driver_id = driver
        self.on_kill()

    def abort(self) -> None:
        """End spark-submit."""
        if self._submit_sp is not None and self._submit_sp.poll() is None:
            self._submit_sp.kill()

    def _get_spark_binary_path(self) -> list[str]:
        """The provider takes for granted that the environment of this Python is on the PATH.

        It ends with this task: otherwise it could submit a server that the next try does not know about.
        """
        bound = [sys.executable, "-S", "-E", parent_death.__file__, str(os.getpid()), "0"]
        return [*bound, shutil.which(self._connection["spark_binary"]) or str(spark_submit("Ephemeral"))]


def _environment() -> dict[str, str]:
    kept = (name for name in os.environ if name in _KEPT or name.startswith(_KEPT_PREFIXES))
    return {name: os.environ[name] for name in kept}


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
