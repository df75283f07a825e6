"""How a run's own Spark Connect server is started on a cluster, and how one talks to it."""

from __future__ import annotations

import base64
import hashlib
import hmac
import math
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_abs.exchange.records.server_record import RunServer
from airflow_abs.spark.connect.endpoint import DEFAULT_USER, ConnectEndpoint
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError

TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105 - a name
TOKEN_SETTING = "spark.connect.authenticate.token"  # noqa: S105 - a name
PORT_SETTING = "spark.connect.grpc.binding.port"
NO_JAR = "spark-internal"
SERVER_SETTINGS = {
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    # The triggerer or a worker may be away for a while; what it started continues.
    "spark.connect.execute.manager.detachedTimeout": "2h",
    "spark.connect.session.manager.defaultSessionTimeout": "24h",
    # As on YARN and Kubernetes: `plan` counts the slots as soon as the server answers.
    "spark.scheduler.minRegisteredResourcesRatio": "0.8",
}
"""Suggested for every Connect server on a cluster."""
_TIMEOUT_PLUGIN = "org.apache.spark.deploy.DriverTimeoutPlugin"
# Of the event log one line is wanted, and these would be many or long. Whole names: Spark takes no patterns here.
_UNWANTED_EVENTS = (
    "SparkListenerEnvironmentUpdate",
    *(f"SparkListener{what}" for what in ("JobStart", "JobEnd", "StageSubmitted", "StageCompleted", "TaskStart")),
    *(f"SparkListener{what}" for what in ("TaskGettingResult", "TaskEnd", "StageExecutorMetrics", "UnpersistRDD")),
    *(f"org.apache.spark.sql.execution.ui.SparkListenerSQLExecution{what}" for what in ("Start", "End")),
    *(
        f"org.apache.spark.sql.execution.ui.SparkListener{what}"
        for what in ("SQLAdaptiveExecutionUpdate", "SQLAdaptiveSQLMetricUpdates", "DriverAccumUpdates")
    ),
    *(
        f"org.apache.spark.sql.connect.service.SparkListenerConnect{what}"
        for what in (
            *(f"Operation{state}" for state in ("Started", "Analyzed", "ReadyForExecution", "Finished", "Closed")),
            *("OperationCanceled", "OperationFailed", "SessionStarted", "SessionClosed"),
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Application:
    """What spark-submit is called with: the main class, its jar and arguments."""

    main_class: str
    jar: str
    arguments: tuple[str, ...] = ()


def server_properties(conf: Mapping[str, str], lifetime: float) -> dict[str, str]:
    """What a server is started with on every cluster.

    Args:
        conf: the author's, which take precedence over what is only suggested here.
        lifetime: seconds after which it ends in any case; in whole minutes.
    """
    plugins = [name for name in conf.get("spark.plugins", "").split(",") if name]
    fixed = {
        "spark.plugins": ",".join([*plugins, _TIMEOUT_PLUGIN]),
        "spark.driver.timeout": f"{math.ceil(lifetime / 60)}min",
    }
    return SERVER_SETTINGS | dict(conf) | fixed


def announcing_properties(folder: str) -> dict[str, str]:
    """Any free port, and its announcement in an event log of one line; `folder` is the URI of the log's."""
    return {
        PORT_SETTING: "0",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder,
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.excludedPatterns": ",".join(_UNWANTED_EVENTS),
    }


def derive_token(secret: str, key: str) -> str:
    """The token of one start: it is derived from the secret whenever it is needed, so it is stored nowhere.

    Raises:
        ConnectAccessDeniedError: there is no secret.
    """
    if not secret:
        raise ConnectAccessDeniedError(
            "the token of a run's Spark server is derived from the password of the job's connection, which has none; "
            "set it to a long random text"
        )
    digest = hmac.digest(secret.encode(), f"airflow_abs Spark Connect {key}".encode(), hashlib.sha256)
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def server_endpoint(server: RunServer | None, secret: str, user_id: str | None) -> ConnectEndpoint:
    """Where the run's server is.

    Raises:
        ConnectServerUnreachableError: it is not up, or may not be spoken to over the network.
    """
    if server is None or not server.host:
        found = "it was not started" if server is None or not server.application else "it is still starting"
        raise ConnectServerUnreachableError(
            f"this run has no Spark server: {found}; clear start_server of the run, without downstream tasks"
        )
    token = derive_token(secret, server.key)
    endpoint = ConnectEndpoint(
        server.host, server.port, token=token, user_id=user_id or DEFAULT_USER, remedy=_remedy(server)
    )
    if endpoint.is_loopback:
        return endpoint
    if not server.trusted_network:
        raise ConnectServerUnreachableError(
            f"the Spark server of this run listens on another host, {endpoint.address}, and has no TLS: its token "
            "would travel in plain text; set Ephemeral(trusted_network=True) if the network is trusted, or encrypts"
        )
    bearer = ("authorization", f"Bearer {token}")  # as a token it would be sent with TLS only
    return ConnectEndpoint(
        server.host, server.port, user_id=endpoint.user_id, headers=(bearer,), remedy=endpoint.remedy
    )


def _remedy(server: RunServer) -> str:
    return (
        f"it was started for this run as {server.application}, whose log says why it ended; clear start_server of the "
        "run, without downstream tasks, to start a new one"
    )
