"""A pyspark session on an endpoint, for the one task that compiles: the only one that loads pyspark (half a second)."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_abs.spark.connect.abilities import LOCAL_ROW_SETTINGS, PLAIN_NUMBERS, Abilities
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, open_blocking_channel, probe_blocking
from airflow_abs.spark.connect.operations import EVERY_SESSION
from airflow_abs.spark.connect.protocol import check_one_release, client_version
from airflow_abs.spark.connect.shared_change import shared

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

# pyspark's functions ask it at every call: without it `F.col` looks for a JVM in this process.
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
# pyspark logs every error of a query with its whole Java stack, besides raising it.
_ERROR_LOGGERS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")
_BYTES = re.compile(r"\d+b")
# What pyspark's client asks for when it sends local rows, and Spark 4.0 does not know; the values are Spark 4.2's.
_LOCAL_ROW_SETTINGS = {
    "spark.sql.session.localRelationSizeLimit": str(3 * 1024**3),
    "spark.sql.session.localRelationChunkSizeRows": "10000",
    "spark.sql.session.localRelationChunkSizeBytes": str(16 * 1024**2),
    "spark.sql.session.localRelationBatchOfChunksSizeBytes": str(1024**3),
}
# A server that is not there refuses at once; one that collects garbage, or has all its cores busy, answers late.
_ANSWER_SECONDS = 20.0
# Waits of 0.1, 0.2, ... 2 s: a server that goes away is given up after some 10 s, not pyspark's ten minutes.
_RETRIES = {"max_retries": 8, "initial_backoff": 100, "backoff_multiplier": 2.0, "max_backoff": 2000, "jitter": 0}


@contextmanager
def open_session(
    endpoint: ConnectEndpoint, *, session_id: str | None = None, config: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """A Connect session of pyspark, the active one in this thread; ended on the server when the block ends.

    Without `session_id` a new one. Within the block pyspark's functions work without a JVM.

    Raises:
        ConnectServerUnreachableError: nothing is there (within a second), or it does not answer (for 20 s).
        ConnectAccessDeniedError: the token is refused.
        VersionMismatchError: the server's release does not fit, see `Abilities.check`.
        PysparkMissingError: two releases of pyspark are installed over each other.
    """
    check_one_release()
    server = Abilities.of_release(probe_blocking(endpoint, timeout=_ANSWER_SECONDS))
    server.check(client_version(), allow_untried=endpoint.allow_untried_spark)
    with _connect_mode():
        session = _create(endpoint, session_id, config or {})
        if not server.has(PLAIN_NUMBERS):
            own = {} if server.has(LOCAL_ROW_SETTINGS) else _LOCAL_ROW_SETTINGS
            _read_older_settings(session.client, own)
        try:
            yield session
        finally:
            session.stop()


@shared
@contextmanager
def _connect_mode() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in _ERROR_LOGGERS]
    before, levels = os.environ.get(_CONNECT_MODE), [logger.level for logger in loggers]
    os.environ[_CONNECT_MODE] = "1"
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if before is None:
            os.environ.pop(_CONNECT_MODE, None)
        else:
            os.environ[_CONNECT_MODE] = before


def _create(endpoint: ConnectEndpoint, session_id: str | None, config: Mapping[str, str]) -> SparkSession:
    from pyspark.sql.connect.client import ChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    class EndpointChannels(ChannelBuilder):  # type: ignore[misc]
        """pyspark's client on our channel: the same credentials, and no token in a URL."""

        @property
        def host(self) -> str:
            return endpoint.host

        def toChannel(self) -> Any:  # noqa: N802
            return open_blocking_channel(endpoint)

    session_id = session_id or str(uuid.uuid4())
    parameters = {
        **dict(endpoint.headers_of(session_id)),
        "user_id": endpoint.user_id,
        "user_agent": endpoint.user_agent,
        "session_id": session_id,
    }
    builder = SparkSession.builder.config(map=dict(EVERY_SESSION))
    builder = builder.channelBuilder(EndpointChannels(params=parameters))
    session = builder.create()
    session.client.set_retry_policies([DefaultPolicy(**_RETRIES)])
    for key in sorted(config):
        session.conf.set(key, config[key])
    return session


def _read_older_settings(client: Any, own: Mapping[str, str]) -> None:
    """Have pyspark read "3221225472b" as the number that it expects, and settings that the server lacks from `own`."""
    ask = client.get_config_dict

    def get_config_dict(*keys: str) -> dict[str, Any]:
        found = {**ask(*(key for key in keys if key not in own)), **{key: own[key] for key in keys if key in own}}
        return {key: value[:-1] if value and _BYTES.fullmatch(value) else value for key, value in found.items()}

    client.get_config_dict = get_config_dict


def is_gone(error: Exception) -> bool:
    """True if an error of pyspark's says that the server or the session is gone, and nothing of what was asked."""
    from pyspark.errors import PySparkException

    lost = isinstance(error, PySparkException) and (error.getCondition() or "").startswith("INVALID_HANDLE")
    return lost or _is_unavailable(error)


def _is_unavailable(error: Exception) -> bool:
    import grpc
    from pyspark.errors.exceptions.connect import SparkConnectGrpcException

    return isinstance(error, SparkConnectGrpcException) and error.getGrpcStatusCode() == grpc.StatusCode.UNAVAILABLE
