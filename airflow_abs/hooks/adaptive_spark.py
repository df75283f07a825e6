"""From an Airflow connection to a Spark Connect server: the one it names, or the embedded one of this host."""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.databricks import CONNECTION_TYPE as DATABRICKS
from airflow_abs.hooks.remote_server import remote_endpoint
from airflow_abs.settings import read_host_settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_abs.core.slots.executors import Executors
    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.exchange.records.server_record import RunServer
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings


_ENDPOINT_SECONDS = 5.0
_endpoints: weakref.WeakKeyDictionary[
    asyncio.AbstractEventLoop, dict[tuple[str, str], tuple[ConnectEndpoint, float]]
] = weakref.WeakKeyDictionary()


class AdaptiveSparkHook(SparkConnectHook):
    """The Spark provider's hook; a connection without a host (or with the extra ``embedded``) means the server of this
    host, which the first task that needs it starts.

    With `run`, the folder of a job with `Ephemeral`, it is the server that was started for that run; of the connection
    count the user and the password, from which the server's token is derived.
    """

    def __init__(self, conn_id: str, run: JobFolder | None = None) -> None:
        super().__init__(conn_id)
        self._run = run

    @property
    def server_name(self) -> str:
        """For messages: the same for all users of a server."""
        run = self._run
        return self._conn_id if run is None else f"{run.dag_id}/{run.run_id}/{run.job}"

    def get_endpoint(self) -> ConnectEndpoint:
        """For workers: may start the embedded server, and then takes some seconds."""
        return self._endpoint(self.get_connection(self._conn_id))

    def find_endpoint(self) -> ConnectEndpoint | None:
        """The server if there is one; starts none."""
        from airflow_abs.exchange.records.server_record import read_server
        from airflow_abs.spark.server.embedded import embedded_status

        connection = self.get_connection(self._conn_id)
        if self._run is not None:
            server = read_server(self._run)
            return self._endpoint(connection) if server is not None and server.host else None
        if is_embedded(connection) and not embedded_status(embedded_folder()).running:
            return None
        return self._endpoint(connection)

    async def aget_endpoint(self) -> ConnectEndpoint:
        """For event loops: nothing blocks. The answer is kept for some seconds: a triggerer asks for hundreds of
        subtasks, and each time costs a request to Airflow and a look at the embedded server."""
        known = _endpoints.setdefault(asyncio.get_running_loop(), {})
        key = (self._conn_id, "" if self._run is None else str(self._run.path))
        endpoint, until = known.get(key, (None, 0.0))
        if endpoint is None or until < time.monotonic():
            for old in [name for name, (_, end) in known.items() if end < time.monotonic()]:
                del known[old]  # runs come and go
            connection = await self.aget_connection(self._conn_id)
            endpoint = await asyncio.to_thread(self._endpoint, connection)
            known[key] = endpoint, time.monotonic() + _ENDPOINT_SECONDS
        return endpoint

    def secret(self) -> str:
        """What the tokens of runs' servers are derived from."""
        return self.get_connection(self._conn_id).password or ""

    def endpoint_of(self, server: RunServer) -> ConnectEndpoint:
        """Where this server of a run is, with its token."""
        from airflow_abs.spark.server.application import server_endpoint

        connection = self.get_connection(self._conn_id)
        return server_endpoint(server, connection.password or "", connection.login)

    def _endpoint(self, connection: Connection) -> ConnectEndpoint:
        found = replace(self._found(connection), allow_untried_spark=_allows_untried(connection))
        return found if self._run is None else replace(found, executors=partial(_ask_executors, self._run))

    def _found(self, connection: Connection) -> ConnectEndpoint:
        from airflow_abs.exchange.records.server_record import read_server
        from airflow_abs.spark.server.application import server_endpoint
        from airflow_abs.spark.server.embedded import ensure_embedded_server

        if self._run is not None:
            return server_endpoint(read_server(self._run), connection.password or "", connection.login)
        if is_embedded(connection):
            return ensure_embedded_server(embedded_folder(), settings=embedded_settings(connection))
        return remote_endpoint(connection)


def stored_endpoint(conn_id: str) -> ConnectEndpoint:
    """The server of a connection for commands on an Airflow host: tasks have no database to read it from.

    Raises:
        InvalidValueError: this Airflow has no such connection.
        SparkOperationError, EmbeddedSparkError: the embedded server does not start.
    """
    from airflow.models.connection import Connection as StoredConnection

    from airflow_abs.airflow_abilities import AirflowNotFoundException

    try:
        connection = StoredConnection.get_connection_from_secrets(conn_id)
    except AirflowNotFoundException:
        raise InvalidValueError(
            f"this Airflow has no connection {conn_id!r}; expected one that `airflow connections list` shows"
        ) from None
    return AdaptiveSparkHook(conn_id)._endpoint(cast("Connection", connection))


def _ask_executors(run: JobFolder) -> Executors | None:
    from airflow_abs.hooks.run_server import ask_executors  # asked only where Spark waits

    return ask_executors(run)


def _allows_untried(connection: Connection) -> bool:
    given = connection.extra_dejson.get("allow_untried_spark", False)
    if not isinstance(given, bool):
        raise InvalidValueError(
            f"connection {str(connection.conn_id)!r}: its extra allow_untried_spark is {given!r}; expected true "
            "or false"
        )
    return given


def is_embedded(connection: Connection) -> bool:
    return connection.conn_type != DATABRICKS and (not connection.host or bool(connection.extra_dejson.get("embedded")))


def embedded_settings(connection: Connection) -> EmbeddedSettings:
    """The connection's extra as settings of the embedded server: ``cores``, ``driver_memory``, ``conf``, ..."""
    from airflow_abs.spark.server.embedded_state import EmbeddedSettings

    extra = connection.extra_dejson
    known = {field.name: extra[field.name] for field in fields(EmbeddedSettings) if field.name in extra}
    if "conf" in known:
        known["conf"] = tuple(sorted((str(key), str(value)) for key, value in known["conf"].items()))
    return EmbeddedSettings(**known)


def embedded_folder() -> Path:
    """Where the embedded server of this host keeps its state and its log."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return Path(read_host_settings().embedded_folder or f"{home}/adaptive_spark").expanduser()
