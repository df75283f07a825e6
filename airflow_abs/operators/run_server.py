"""Setup and teardown of a job with `Ephemeral`: the Spark Connect server of the run."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_abs.airflow_abilities import AirflowRescheduleException
from airflow_abs.operators.job_task import JobTask

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.exchange.records.server_record import RunServer
    from airflow_abs.hooks.clusters import ClusterManager
    from airflow_abs.hooks.ephemeral import Ephemeral

# One that starts at once is awaited in the worker; one that waits for room on the cluster keeps no worker busy.
_WORKER_SECONDS = 60.0
_AGAIN_SECONDS = 15.0
_LOOK_SECONDS = 1.0

_START_DOCS = (
    "Submits a Spark Connect server for this run as an application of the cluster, and waits until it answers: a "
    "minute in the worker, then the task is rescheduled, so that it holds no slot. It keeps a server that still runs. "
    "Clear it, without downstream tasks, to replace a server that has ended."
)
_STOP_DOCS = "Ends the run's Spark Connect server, whatever happened to the other tasks."


class ServerTask(JobTask):
    """A task that starts or ends the server.

    Args:
        server: how the job's servers are started.
    """

    def __init__(self, *, server: Ephemeral, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.server = server


class StartServerOperator(ServerTask):
    """Starts the run's server, or uses the one that runs. See `hooks/run_server.py`."""

    ui_color = "#f3e8fd"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"doc_md": _START_DOCS, **kwargs})
        self._cluster: ClusterManager | None = None
        self._application = ""

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_abs.execution.lineage import with_parent_job
        from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
        from airflow_abs.hooks.clusters import open_cluster
        from airflow_abs.hooks.run_server import find_server, start_server, stop_server
        from airflow_abs.spark.errors import SparkOperationError

        folder, secret = self.folder(context), AdaptiveSparkHook(self.conn_id).secret()
        cluster = self._cluster = open_cluster(self.server.conn_id)
        server = find_server(cluster, folder)
        if server is None:
            conf = with_parent_job(self.server.conf, context)
            server = start_server(cluster, replace(self.server, conf=conf), folder, secret)
        self._application = server.application
        try:
            up = self._await(cluster, folder, server)
        except SparkOperationError:
            stop_server(self.server, folder)
            raise
        if up is None:
            self.log.info("%s does not answer yet; looking again in %g s", server.application, _AGAIN_SECONDS)
            raise AirflowRescheduleException(datetime.now(UTC) + timedelta(seconds=_AGAIN_SECONDS))
        self.log.info("Spark server %s is up at %s:%d", up.application, up.host, up.port)
        self._tell_executors(cluster, up.application)
        return {"application": up.application, "address": f"{up.host}:{up.port}"}

    def _tell_executors(self, cluster: ClusterManager, application: str) -> None:
        """Once: a server without executors answers, but its queries wait for as long as that is so."""
        from airflow_abs.spark.errors import ConnectServerUnreachableError

        try:
            found = cluster.executors(application)
        except ConnectServerUnreachableError as error:
            self.log.info("cannot tell how many executors it has: %s", error)
            return
        if found is not None:
            level = logging.INFO if found.running else logging.WARNING
            self.log.log(level, "Spark server %s: %s", application, found)

    def on_kill(self) -> None:
        """Ends spark-submit, and the driver once it is known."""
        if self._cluster is not None:
            self._cluster.abort()
            if self._application:
                self._cluster.kill(self._application)

    def _await(self, cluster: ClusterManager, folder: JobFolder, server: RunServer) -> RunServer | None:
        """The server with its address, noted; None if it has not answered for as long as the worker waits.

        Raises:
            ConnectServerUnreachableError: it has ended, or its time to start is over, or it may not be spoken to.
        """
        from airflow_abs.exchange.records.server_record import write_server
        from airflow_abs.hooks.run_server import starts_folder
        from airflow_abs.spark.errors import ConnectServerUnreachableError

        patience = time.monotonic() + _WORKER_SECONDS
        # One that was up is not given up for one answer that it owes.
        deadline = max(server.submitted + self.server.start_timeout, time.time() + _WORKER_SECONDS)
        told = ""
        while True:
            state = cluster.state(server.application)
            if not state.is_active:
                raise ConnectServerUnreachableError(
                    f"Spark server {server.application} is {state} and never answered; its log, at the cluster manager "
                    "or on the worker, says why"
                )
            address = cluster.address(server.application, starts_folder(self.server, folder), server.key)
            if address is not None:
                up = replace(server, host=address[0], port=address[1])
                if self._answers(up):
                    write_server(folder, up)
                    return up
            found = f"{state}" if address is None else f"{state}, no answer yet at {address[0]}:{address[1]}"
            if found != told:
                self.log.info("Spark server %s: %s", server.application, found)
                told = found
            if time.time() >= deadline:
                raise ConnectServerUnreachableError(
                    f"Spark server {server.application} is {state} and does not answer after "
                    f"{self.server.start_timeout:g} s; give it room on the cluster, or raise start_timeout of Ephemeral"
                )
            if time.monotonic() >= patience:
                return None
            time.sleep(_LOOK_SECONDS)

    def _answers(self, server: RunServer) -> bool:
        from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
        from airflow_abs.spark.connect.endpoint import probe_blocking
        from airflow_abs.spark.errors import ConnectServerUnreachableError

        endpoint = AdaptiveSparkHook(self.conn_id).endpoint_of(server)
        try:
            probe_blocking(endpoint)
        except ConnectServerUnreachableError as error:
            self.log.debug("%s", error)
            return False
        return True


class StopServerOperator(ServerTask):
    """Ends the run's server."""

    ui_color = "#f3e8fd"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"doc_md": _STOP_DOCS, **kwargs})

    def execute(self, context: Context) -> None:
        from airflow_abs.hooks.run_server import stop_server

        ended = stop_server(self.server, self.folder(context))
        self.log.info("ended Spark server %s" if ended else "no Spark server to end%s", ended)
