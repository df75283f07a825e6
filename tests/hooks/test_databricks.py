"""Connections of the Databricks provider: where Spark is, who signs in, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.adaptive_spark import is_embedded
from airflow_abs.hooks.remote_server import remote_endpoint
from airflow_abs.spark.access.oauth import ClientCredentials
from airflow_abs.spark.access.tokens import TokenCommand
from airflow_abs.spark.connect.endpoint import ConnectEndpoint

SECRET = "s3cret"
HOST = "acme.cloud.databricks.com"
ON_CLUSTER = {"cluster_id": "0123-456789-abcdefgh"}
CLUSTER_HEADER = (("x-databricks-cluster-id", "0123-456789-abcdefgh"),)


def connection(
    login: str | None = None, password: str | None = SECRET, host: str | None = f"https://{HOST}/", **extra: Any
) -> Connection:
    return Connection(
        conn_id="lake", conn_type="databricks", host=host, login=login, password=password, extra=json.dumps(extra)
    )


@pytest.mark.parametrize("host", [HOST, f"https://{HOST}", f"https://{HOST}/?o=123", f"{HOST}/"])
def test_the_workspace_is_the_server_over_tls(host: str) -> None:
    found = remote_endpoint(connection(host=host, **ON_CLUSTER))
    assert found == ConnectEndpoint(HOST, 443, token="s3cret", headers=CLUSTER_HEADER)
    assert found.is_encrypted
    assert "s3cret" not in f"{found!r}"


def test_the_extras_host_and_token_win_as_for_the_provider() -> None:
    extra = {"host": HOST, "token": "of-extra", **ON_CLUSTER}
    both = Connection(conn_id="lake", conn_type="databricks", host="other", password="p", extra=json.dumps(extra))
    assert (remote_endpoint(both).host, remote_endpoint(both).token) == (HOST, "of-extra")


def test_the_path_of_a_cluster_names_it() -> None:
    found = remote_endpoint(connection("token", http_path="sql/protocolv1/o/123/0123-456789-abcdefgh"))
    assert (found.headers, found.session_header, found.token) == (CLUSTER_HEADER, None, "s3cret")


def test_serverless_compute_wants_the_session_of_each_call() -> None:
    found = remote_endpoint(connection(serverless_compute_id="auto"))
    assert (found.headers, found.session_header) == ((), "x-databricks-session-id")


def test_a_service_principal_gets_its_tokens_from_the_workspace() -> None:
    found = remote_endpoint(connection("app-id", service_principal_oauth=True, **ON_CLUSTER))
    assert found.token is None
    assert found.token_source == ClientCredentials(f"https://{HOST}/oidc/v1/token", "app-id", "s3cret", "all-apis")
    assert "s3cret" not in f"{found!r}"


def test_our_extras_count_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__ALLOW_TOKEN_COMMANDS", "True")
    found = remote_endpoint(
        connection(
            "ann",
            token_command=["az", "token"],
            user_agent="acme/1",
            headers={"x-trace": "1"},
            azure_tenant_id="t",
            **ON_CLUSTER,
        )
    )
    assert found.token is None
    assert found.token_source == TokenCommand(("az", "token"))
    assert (found.user_agent, found.headers) == ("acme/1", (*CLUSTER_HEADER, ("x-trace", "1")))


def test_a_workspace_is_never_the_embedded_server() -> None:
    assert not is_embedded(connection(host=None))
    with pytest.raises(InvalidValueError, match="connection 'lake' names no workspace; expected a host such as"):
        remote_endpoint(connection(host=None, **ON_CLUSTER))


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ({}, "none of its extras"),
        ({"http_path": "/sql/1.0/warehouses/abc"}, "http_path"),
        ({"cluster_id": "a\nb"}, "cluster_id"),
        ({"serverless_compute_id": "other"}, "serverless_compute_id"),
        ({"serverless_compute_id": "auto", **ON_CLUSTER}, "cluster_id and serverless_compute_id"),
    ],
)
def test_a_connection_that_does_not_say_where_spark_runs_is_refused(extra: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        remote_endpoint(connection(**extra))
    assert str(caught.value) == (
        f"connection 'lake' says by {found} where Spark runs; expected one of the extras \"cluster_id\", "
        '"http_path" of a cluster ("sql/protocolv1/o/...", no SQL warehouse: those have no Spark Connect) and '
        '"serverless_compute_id": "auto"'
    )


@pytest.mark.parametrize(
    ("login", "password", "extra"),
    [
        ("ann", "s3cret", {}),
        ("app-id", "s3cret", {"azure_tenant_id": "t"}),
        (None, None, {"use_azure_managed_identity": True}),
        (None, None, {"service_principal_oauth": True}),
        (None, None, {"federated_k8s": True}),
    ],
)
def test_other_ways_to_sign_in_are_refused(login: str | None, password: str | None, extra: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        remote_endpoint(connection(login, password, **extra, **ON_CLUSTER))
    assert str(caught.value) == (
        "connection 'lake' has no way to sign in that Spark Connect knows; expected a personal access token as the "
        'password, without a login; or "service_principal_oauth": true with id and secret of the principal as login '
        "and password; or the extra token_command for any other"
    )
