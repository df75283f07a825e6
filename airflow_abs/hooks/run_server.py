"""Start and end the Spark Connect server of one run. What there is of it is in the record of the run's job folder."""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import replace

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.server_record import RunServer, delete_start, read_server, write_server
from airflow_abs.hooks.clusters import ClusterManager, ServerStart, open_cluster
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.hooks.storage import open_path
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import derive_token

log = logging.getLogger(__name__)

_KILL_SECONDS = 60.0
_ASK_AGAIN_SECONDS = 10.0
_POLL_SECONDS = 0.5


def starts_folder(settings: Ephemeral, folder: JobFolder) -> JobFolder:
    """Where a server announces itself."""
    return folder if settings.folder is None else replace(folder, root=open_path(settings.folder))


def find_server(cluster: ClusterManager, folder: JobFolder) -> RunServer | None:
    """The server that an earlier try, or the run before it was cleared, has left running.

    One that has ended is removed from its cluster manager.
    """
    server = read_server(folder)
    if server is None or not server.key:
        return None
    if not server.application:  # its submitter died: the cluster may have it all the same
        application = cluster.find(server.key)
        if application is None:
            return None
        server = replace(server, application=application)
        write_server(folder, server)
    if cluster.state(server.application).is_active:
        return server
    cluster.kill(server.application)  # Kubernetes keeps the pod of one that failed, and its secret
    return None


def start_server(cluster: ClusterManager, settings: Ephemeral, folder: JobFolder, secret: str) -> RunServer:
    """Submit a new one. It is recorded before and right after, so that a later task can end it.

    Raises:
        ConnectAccessDeniedError: there is no secret to derive its token from.
        ExchangeUnreachableError: it could not announce itself.
        AirflowException: spark-submit failed.
    """
    from airflow.sdk.log import mask_secret

    key = secrets.token_hex(8)
    token = derive_token(secret, key)
    mask_secret(token)
    server = RunServer(key, "", time.time(), trusted_network=settings.trusted_network, conn_id=settings.conn_id)
    write_server(folder, server)
    name = f"airflow-abs {folder.dag_id}/{folder.run_id}/{folder.job}"
    start = ServerStart(key, name, starts_folder(settings, folder), settings.conf, settings.lifetime, token)
    server = replace(server, application=cluster.submit(start))
    write_server(folder, server)
    return server


def ask_executors(folder: JobFolder) -> Executors | None:
    """What its cluster manager says of the executors of the run's server; None if it does not say."""
    try:
        server = read_server(folder)
        if server is None or not server.application or not server.conn_id:
            return None
        return open_cluster(server.conn_id).executors(server.application)
    except Exception as error:  # whoever asks waits for something else
        log.info("cannot tell how many executors it has: %s", error)
        return None


def stop_server(settings: Ephemeral, folder: JobFolder) -> str:
    """End the run's server, if there is one; what it was called, or "".

    Raises:
        ConnectServerUnreachableError: it does not end, or its cluster manager does not answer.
    """
    server = read_server(folder)
    if server is None or not server.key:
        return ""
    cluster = open_cluster(settings.conn_id)
    application = server.application or cluster.find(server.key) or ""
    if application:
        stop_application(cluster, application)
    write_server(folder, replace(server, key="", application="", host="", port=0))
    delete_start(starts_folder(settings, folder), server.key)
    return application


def stop_application(cluster: ClusterManager, application: str) -> None:
    """End it, and wait until it is gone. One that has ended already is fine.

    It is asked to end also if its cluster manager, in recovery itself, knows nothing of it now.

    Raises:
        ConnectServerUnreachableError: it is still there after a minute.
    """
    cluster.kill(application)
    started = asked = time.monotonic()
    while (state := cluster.state(application)).is_active:
        now = time.monotonic()
        if now >= started + _KILL_SECONDS:
            raise ConnectServerUnreachableError(
                f"Spark server {application} is still {state} {_KILL_SECONDS:g} s after it was asked to stop; "
                "stop it in its cluster manager"
            )
        if now >= asked + _ASK_AGAIN_SECONDS:
            cluster.kill(application)
            asked = now
        time.sleep(_POLL_SECONDS)
