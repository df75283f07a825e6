"""Extras of a connection to a Spark server that somebody else runs, and what is refused of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.hooks.remote_server import remote_endpoint
from airflow_abs.spark.access.tokens import TokenCommand, TokenFunction
from airflow_abs.spark.connect.endpoint import ConnectEndpoint

ALLOW = "AIRFLOW__ADAPTIVE_SPARK__ALLOW_TOKEN_COMMANDS"


def connection(password: str | None = None, **extra: Any) -> Connection:
    return Connection(
        conn_id="managed",
        conn_type="spark_connect",
        host="spark.example",
        port=443,
        login="ann",
        password=password,
        extra=json.dumps(extra),
    )


def test_a_connection_without_extras_is_the_providers_url() -> None:
    assert remote_endpoint(connection("t")) == ConnectEndpoint("spark.example", 443, token="t", user_id="ann")


def test_headers_and_user_agent_are_taken_from_extras() -> None:
    found = remote_endpoint(
        connection("t", use_ssl=True, headers={"X-Cluster-Id": "1234", "x-api-key": "s3cret"}, user_agent="acme/1.0")
    )
    assert found == ConnectEndpoint(
        "spark.example",
        443,
        token="t",
        use_ssl=True,
        user_id="ann",
        headers=(("x-api-key", "s3cret"), ("x-cluster-id", "1234")),
        user_agent="acme/1.0",
    )
    assert "s3cret" not in f"{found} {found!r}"


def test_the_headers_of_token_and_session_are_taken_from_extras() -> None:
    found = remote_endpoint(connection("t", token_header="X-Proxy-Auth", session_header="x-session-id"))
    assert (found.token_header, found.session_header) == ("x-proxy-auth", "x-session-id")


def test_values_of_headers_that_are_named_like_secrets_are_masked_in_logs() -> None:
    from airflow.sdk._shared.secrets_masker import redact

    remote_endpoint(connection(headers={"x-api-key": "vaultword-of-a-header", "x-cluster-id": "cluster-of-a-header"}))
    assert redact("sent vaultword-of-a-header to cluster-of-a-header") == "sent *** to cluster-of-a-header"


def test_a_program_or_a_function_gives_the_token_where_that_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW, "True")
    of_program = remote_endpoint(connection(token_command=["databricks", "auth", "token"], token_seconds=600))
    assert of_program.token_source == TokenCommand(("databricks", "auth", "token"), 600.0)
    of_function = remote_endpoint(connection(token_provider="acme.spark.token"))
    assert of_function.token_source == TokenFunction("acme.spark.token", 900.0)
    assert of_program.is_encrypted
    assert of_program.token is None


@pytest.mark.parametrize("extra", [{"token_command": ["id"]}, {"token_provider": "acme.spark.token"}])
def test_who_may_edit_connections_may_not_run_programs_unless_the_deployment_says_so(extra: dict[str, Any]) -> None:
    with pytest.raises(InvalidValueError) as caught:
        remote_endpoint(connection(**extra))
    assert str(caught.value) == (
        f"connection 'managed' has the extra {next(iter(extra))}, which runs code on the hosts of Airflow and is not "
        "allowed here; expected [adaptive_spark] allow_token_commands = True, if all who may edit connections may do "
        "that"
    )


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"headers": ["x"]}, "its extra headers is of type list; expected an object of names and texts"),
        ({"headers": {"Authorization": "Bearer s3cret"}}, "its extra headers names 'authorization', which is not"),
        ({"headers": {"grpc-timeout": "1S"}}, "names 'grpc-timeout'"),
        ({"headers": {"x-data-bin": "s3cret"}}, "names 'x-data-bin'"),
        ({"headers": {"x y": "s3cret"}}, "names 'x y'"),
        ({"headers": {"x-key": 5}}, "the value of 'x-key' in its extra headers is not printable ASCII; expected text"),
        (
            {"headers": {"x-key": "s3cret\n"}},
            "the value of 'x-key' in its extra headers is not printable ASCII; expected text",
        ),
        ({"token_header": "authorization"}, "its extra token_header is 'authorization', which is not a header that"),
        ({"session_header": "x y"}, "its extra session_header is 'x y', which is not a header that can be set"),
        (
            {"headers": {"x-session": "s3cret"}, "session_header": "X-Session"},
            "two of its extras headers, token_header and session_header name the same header",
        ),
        ({"user_agent": "a\nb"}, "its extra user_agent is 'a\\nb'; expected at most 256 printable ASCII characters"),
        ({"token_command": "id"}, "its extras name no source of tokens; expected either token_command, a list of"),
        ({"token_command": []}, "its extras name no source of tokens"),
        ({"token_provider": "function"}, "its extras name no source of tokens"),
        ({"token_command": ["id"], "token_provider": "a.b"}, "its extras name no source of tokens"),
        ({"token_command": ["id"], "token_seconds": 0}, "its extra token_seconds is 0; expected a number of seconds"),
        ({"token_command": ["id"], "token_seconds": "1h"}, "its extra token_seconds is '1h'; expected a number of"),
    ],
)
def test_extras_that_cannot_be_sent_are_refused(
    extra: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ALLOW, "True")
    with pytest.raises(InvalidValueError) as caught:
        remote_endpoint(connection(**extra))
    assert str(caught.value).startswith("connection 'managed': ")
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_password_beside_a_source_of_tokens_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOW, "True")
    with pytest.raises(InvalidValueError) as caught:
        remote_endpoint(connection("s3cret", token_command=["id"]))
    assert str(caught.value) == (
        "connection 'managed' has a password and a source of tokens, which are both the server's token; expected one "
        "of them"
    )
