"""Where a run's own Spark server can be started: one module per cluster manager, all behind `ClusterManager`.

What differs between managers is in their modules and nowhere else. Nothing here decides when a server starts or ends.
"""

from __future__ import annotations

from airflow.sdk import BaseHook

from airflow_abs.hooks.clusters.kubernetes import Kubernetes, check_installed
from airflow_abs.hooks.clusters.manager import ApplicationState, ClusterManager, ServerStart
from airflow_abs.hooks.clusters.standalone import Standalone
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.hooks.clusters.yarn import Yarn

__all__ = ["ApplicationState", "ClusterManager", "ServerStart", "open_cluster"]


def open_cluster(conn_id: str) -> ClusterManager:
    """The cluster that an Airflow connection of type `spark` names.

    Raises:
        ValueError: it names no cluster.
        ConnectServerUnreachableError: a package for it is not installed.
    """
    if str(BaseHook.get_connection(conn_id).host).startswith("k8s://"):
        check_installed()  # the Spark provider's hook does not say it
    submission = SparkSubmission(conn_id)
    match submission.master.partition(":")[0]:
        case "yarn" | "yarn-cluster":
            return Yarn(submission)
        case "k8s":
            return Kubernetes(submission)
        case _ if submission.rest_endpoint:
            return Standalone(submission)
    raise ValueError(
        f"connection {conn_id!r} names the Spark master {submission.master!r}; Ephemeral needs a connection of the "
        "type 'spark' to one standalone master (spark://host), YARN or Kubernetes (k8s://...)"
    )
