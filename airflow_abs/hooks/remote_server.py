"""A Spark Connect server that others run, as its connection describes it: address, token, headers, user agent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.settings import SECTION
from airflow_abs.hooks.databricks import CONNECTION_TYPE as DATABRICKS
from airflow_abs.hooks.databricks import workspace_endpoint
from airflow_abs.settings import read_host_settings

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_abs.spark.access.tokens import TokenSource
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

# What gRPC sends as text, and lets the caller set.
_HEADER = re.compile(r"(?!grpc-|:)[0-9a-z_.-]+(?<!-bin)")
# Each has a field or an extra of its own.
_NOT_A_HEADER = frozenset(
    {"authorization", "user-agent", "user_agent", "user_id", "session_id", "token", "use_ssl", "content-type", "te"}
)
_LONGEST_AGENT = 256


def remote_endpoint(connection: Connection) -> ConnectEndpoint:
    """The server of a connection with a host, of the Spark or the Databricks provider, and our extras beside it.

    Raises:
        ValueError, InvalidValueError: a part of it is none; says which, and shows no secret.
    """
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

    is_databricks = connection.conn_type == DATABRICKS
    endpoint = workspace_endpoint(connection) if is_databricks else ConnectEndpoint.from_url(_url(connection))
    extra, conn_id = connection.extra_dejson, str(connection.conn_id)
    headers = _headers(conn_id, extra.get("headers") or {})
    own = {name: _header_name(conn_id, name, extra.get(name)) for name in ("token_header", "session_header")}
    if len({*own.values(), *dict(headers)} - {None}) < len([each for each in own.values() if each]) + len(headers):
        raise InvalidValueError(
            f"connection {conn_id!r}: two of its extras headers, token_header and session_header name the same header; "
            "expected each header once"
        )
    source = _token_source(conn_id, extra)
    if source is not None and endpoint.token is not None:
        raise InvalidValueError(
            f"connection {conn_id!r} has a password and a source of tokens, which are both the server's token; "
            "expected one of them"
        )
    return replace(
        endpoint,
        headers=(*endpoint.headers, *headers),
        token_source=source or endpoint.token_source,
        user_agent=_user_agent(conn_id, extra.get("user_agent")) or endpoint.user_agent,
        token_header=own["token_header"],
        session_header=own["session_header"] or endpoint.session_header,
    )


def _url(connection: Connection) -> str:
    """The provider's own ``sc://`` URL for a connection that is already at hand (its hook would fetch it, blocking)."""
    hook = SparkConnectHook(str(connection.conn_id))
    hook.get_connection = lambda _: connection  # type: ignore[method-assign, assignment]
    return hook.get_connection_url()


def _headers(conn_id: str, given: Any) -> tuple[tuple[str, str], ...]:
    """Names in small letters, sorted. Values whose names Airflow takes for secrets' are masked in logs from now on."""
    from airflow.sdk.log import mask_secret

    if not isinstance(given, Mapping):
        raise InvalidValueError(
            f"connection {conn_id!r}: its extra headers is of type {type(given).__name__}; expected an object of names "
            'and texts, such as {"x-cluster-id": "1234"}'
        )
    found = {str(name).lower(): value for name, value in given.items()}
    for name, value in found.items():
        if name in _NOT_A_HEADER or _HEADER.fullmatch(name) is None:
            raise InvalidValueError(
                f"connection {conn_id!r}: its extra headers names {name!r}, which is not allowed; expected "
                "lower-case letters, digits, '_', '-' and '.', not beginning with 'grpc-' or ending in '-bin'; a "
                "token is the "
                "password or a token_command, the user the login"
            )
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise InvalidValueError(
                f"connection {conn_id!r}: the value of {name!r} in its extra headers is not printable ASCII; "
                "expected text that is"
            )
        mask_secret({name.replace("-", "_"): value})
    return tuple(sorted(found.items()))


def _header_name(conn_id: str, extra: str, given: Any) -> str | None:
    if given is None:
        return None
    name = str(given).lower()
    if name in _NOT_A_HEADER or _HEADER.fullmatch(name) is None:
        raise InvalidValueError(
            f"connection {conn_id!r}: its extra {extra} is {given!r}, which is not a header that can be set; "
            'expected one such as "x-proxy-auth"'
        )
    return name


def _token_source(conn_id: str, extra: Mapping[str, Any]) -> TokenSource | None:
    from airflow_abs.spark.access.tokens import LIFETIME, TokenCommand, TokenFunction

    command, function = extra.get("token_command"), extra.get("token_provider")
    if command is None and function is None:
        return None
    _check_allowed(conn_id, "token_provider" if command is None else "token_command")
    lifetime = _lifetime(conn_id, extra.get("token_seconds", LIFETIME))
    if command is not None and function is None and isinstance(command, list) and command:
        return TokenCommand(tuple(map(str, command)), lifetime)
    if command is None and isinstance(function, str) and function.count("."):
        return TokenFunction(function, lifetime)
    raise InvalidValueError(
        f"connection {conn_id!r}: its extras name no source of tokens; expected either token_command, a list of "
        'program and arguments such as ["databricks", "auth", "token"], or token_provider, a function such as '
        '"package.module.function"'
    )


def _check_allowed(conn_id: str, name: str) -> None:
    if not read_host_settings().allow_token_commands:
        raise InvalidValueError(
            f"connection {conn_id!r} has the extra {name}, which runs code on the hosts of Airflow and is not allowed "
            f"here; expected [{SECTION}] allow_token_commands = True, if all who may edit connections may do that"
        )


def _lifetime(conn_id: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidValueError(
            f"connection {conn_id!r}: its extra token_seconds is {given!r}; expected a number of seconds above 0"
        )
    return float(given)


def _user_agent(conn_id: str, given: Any) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.isascii() or not given.isprintable() or len(given) > _LONGEST_AGENT:
        raise InvalidValueError(
            f"connection {conn_id!r}: its extra user_agent is {given!r}; expected at most {_LONGEST_AGENT} printable "
            "ASCII characters"
        )
    return given
