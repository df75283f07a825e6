"""Start and end the Spark Connect server of one run. What there is of it is in the record of the run's job folder."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace

from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.server_record import RunServer, delete_start, prepare_start, read_server, write_server
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.hooks.spark_application import ServerSubmitHook, is_active
from airflow_abs.hooks.storage import open_path
from airflow_abs.spark.server.application import derive_token, server_properties


def starts_folder(settings: Ephemeral, folder: JobFolder) -> JobFolder:
    """Where a server announces itself."""
    return folder if settings.folder is None else replace(folder, root=open_path(settings.folder))


def find_server(hook: ServerSubmitHook, folder: JobFolder) -> RunServer | None:
    """The server that an earlier try, or the run before it was cleared, has left running."""
    server = read_server(folder)
    if server is None or not server.application or not is_active(hook.state(server.application)):
        return None
    return server


def start_server(hook: ServerSubmitHook, settings: Ephemeral, folder: JobFolder, secret: str) -> RunServer:
    """Submit a new one, and note it at once, so that whoever comes later can end it.

    Raises:
        ConnectAccessDeniedError: there is no secret to derive its token from.
        ExchangeUnreachableError: it could not announce itself.
        AirflowException: spark-submit failed.
    """
    from airflow.sdk.log import mask_secret

    key = secrets.token_hex(8)
    token = derive_token(secret, key)
    mask_secret(token)
    start = prepare_start(starts_folder(settings, folder), key)
    name = f"airflow-abs {folder.dag_id}/{folder.run_id}/{folder.job}"
    properties = server_properties(uri_for_spark(start), settings.conf, settings.lifetime)
    application = hook.start(name, start, properties, token)
    server = RunServer(key, application, time.time(), trusted_network=settings.trusted_network)
    write_server(folder, server)
    return server


def stop_server(settings: Ephemeral, folder: JobFolder) -> str:
    """End the run's server, if there is one; what it was called, or "".

    Raises:
        ConnectServerUnreachableError: it goes on, or its cluster manager does not answer.
    """
    server = read_server(folder)
    if server is None or not server.application:
        return ""
    ServerSubmitHook(settings.conn_id).stop(server.application)
    write_server(folder, replace(server, application="", host="", port=0))
    delete_start(starts_folder(settings, folder), server.key)
    return server.application
