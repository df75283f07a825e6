"""A Databricks workspace as the connection of Airflow's own Databricks provider describes it, without that package."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from airflow_abs.core.errors import InvalidValueError

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

CONNECTION_TYPE = "databricks"

_PORT = 443
_CLUSTER_HEADER = "x-databricks-cluster-id"
_SESSION_HEADER = "x-databricks-session-id"
_CLUSTER = re.compile(r"[\w-]+", re.ASCII)
_PATH_OF_CLUSTER = re.compile(r"/?sql/protocolv1/o/\d+/(?P<cluster>[\w-]+)/?", re.ASCII)
_TOKEN_SOURCES = ("token_command", "token_provider")


def workspace_endpoint(connection: Connection) -> ConnectEndpoint:
    """The workspace's Spark Connect server: a cluster's, or the one of serverless compute.

    One of the connection's extras says which: `cluster_id`, the `http_path` of a cluster, or `serverless_compute_id`
    ("auto", as in Databricks' own configuration). The token is a personal one, or one that a service principal gets for
    its id and secret; neither is there if the extras name another source of tokens.

    Raises:
        InvalidValueError: it has no workspace or no compute, or signs in another way. Shows no secret.
    """
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

    cluster = _cluster(connection)
    compute = {"headers": ((_CLUSTER_HEADER, cluster),)} if cluster else {"session_header": _SESSION_HEADER}
    endpoint = ConnectEndpoint(_host(connection), connection.port or _PORT, **compute)
    return _with_token(endpoint, connection)


def _host(connection: Connection) -> str:
    """As the provider reads it: the extra wins, and an address of the workspace's page is one, too."""
    given = str(connection.extra_dejson.get("host") or connection.host or "")
    host = urlsplit(given if "//" in given else f"//{given}").hostname
    if not host:
        raise _refused(connection, "names no workspace", 'a host such as "acme.cloud.databricks.com"')
    return host


def _cluster(connection: Connection) -> str | None:
    """The id of the cluster, or None for serverless compute."""
    extra = connection.extra_dejson
    given = {name: extra[name] for name in ("cluster_id", "http_path", "serverless_compute_id") if extra.get(name)}
    match given:
        case {"cluster_id": str(cluster), **others} if not others and _CLUSTER.fullmatch(cluster):
            return cluster
        case {"http_path": str(path), **others} if not others and (found := _PATH_OF_CLUSTER.fullmatch(path)):
            return found["cluster"]
        case {"serverless_compute_id": "auto", **others} if not others:
            return None
    raise _refused(
        connection,
        f"says by {' and '.join(given) or 'none of its extras'} where Spark runs",
        'one of the extras "cluster_id", "http_path" of a cluster ("sql/protocolv1/o/...", no SQL warehouse: those '
        'have no Spark Connect) and "serverless_compute_id": "auto"',
    )


def _with_token(endpoint: ConnectEndpoint, connection: Connection) -> ConnectEndpoint:
    from airflow_abs.spark.access.oauth import ClientCredentials

    extra, login, password = connection.extra_dejson, connection.login, connection.password
    if any(extra.get(name) is not None for name in _TOKEN_SOURCES):
        return endpoint
    if extra.get("service_principal_oauth") and login and password:
        url = f"https://{endpoint.host}/oidc/v1/token"
        return replace(endpoint, token_source=ClientCredentials(url, login, password, "all-apis"))
    token = extra.get("token") or (password if login in {None, "", "token"} else None)
    if not token:
        raise _refused(
            connection,
            "has no way to sign in that Spark Connect knows",
            'a personal access token as the password, without a login; or "service_principal_oauth": true with id and '
            "secret of the principal as login and password; or the extra token_command for any other",
        )
    return replace(endpoint, token=str(token))


def _refused(connection: Connection, found: str, expected: str) -> InvalidValueError:
    return InvalidValueError(f"connection {str(connection.conn_id)!r} {found}; expected {expected}")
