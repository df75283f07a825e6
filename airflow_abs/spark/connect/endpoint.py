"""Where a Spark Connect server is and how to talk to it: address, credentials, channels, a quick probe."""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from airflow_abs.core.slots.executors import Executors
from airflow_abs.spark.access.credentials import token_credentials, token_failure, token_is_refused
from airflow_abs.spark.access.tokens import TokenSource, current_token, refuse_token
from airflow_abs.spark.errors import (
    ConnectAccessDeniedError,
    ConnectServerUnreachableError,
    SparkOperationError,
    TokenUnavailableError,
)

DEFAULT_PORT = 15002
DEFAULT_USER = "airflow"
CLIENT_TYPE = "airflow_abs"
"""What a server's logs call this client, unless the connection has another user agent."""
_PUT_TOKEN = "put the server's token into"  # noqa: S105 - words of a message
_MESSAGE_BYTES = 128 * 1024 * 1024  # as pyspark's client and the server

AskExecutors = Callable[[], Executors | None]


def not_told() -> None:
    """Of a server whose cluster manager is not known."""


@dataclass(frozen=True, slots=True)
class ConnectEndpoint:
    """A Spark Connect server. Its secrets (token, headers) show up in no text that is made from it.

    `user_id` belongs to the identity of a session: only the same user reaches a session or operation again.
    `headers` are sent with every call (pairs of name and value; from parameters of the URL that have no other meaning).
    With `token_source` there is a token, too, and none that a URL could show. `token_header` takes the token without
    "Bearer"; `session_header` takes the id of the Spark session that a call belongs to.
    `allow_untried_spark`: also a server of a release that was not tested, see `Abilities.check`.
    `remedy` says what to do if nothing answers there.
    `executors` asks the server's cluster manager, which may block; its answer is None if that does not say.
    """

    host: str
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    use_ssl: bool = False
    user_id: str = DEFAULT_USER
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    token_source: TokenSource | None = None
    token_header: str | None = None
    session_header: str | None = None
    user_agent: str = CLIENT_TYPE
    allow_untried_spark: bool = False
    remedy: str = field(default="start it, or correct host, port and TLS in the connection", repr=False)
    executors: AskExecutors = field(default=not_told, repr=False, compare=False)

    @classmethod
    def from_url(cls, url: str) -> ConnectEndpoint:
        """The endpoint of "sc://host:port/;token=...;user_id=...;use_ssl=true".

        Raises:
            ValueError: it is not such a URL. The message never shows the parameters' values.
        """
        address = url.partition(";")[0]
        expected = 'expected "sc://host:port/;name=value;..."; correct the connection'
        try:
            parts = urlsplit(address)
            port = parts.port
        except ValueError as error:
            raise ValueError(f"Spark Connect URL {address!r}: {error}; {expected}") from None
        if parts.scheme != "sc" or not parts.hostname or parts.path not in {"", "/"} or parts.username is not None:
            shown = address if "@" not in address else f"sc://***@{address.rpartition('@')[2]}"
            raise ValueError(f"Spark Connect URL {shown!r} is not one; {expected}")
        endpoint = cls(parts.hostname, port or DEFAULT_PORT)
        for number, parameter in enumerate(filter(None, url.partition(";")[2].split(";")), 1):
            name, equals, value = parameter.partition("=")
            if not equals:
                raise ValueError(f"Spark Connect URL {address!r}: parameter number {number} has no value; {expected}")
            endpoint = endpoint._with_parameter(name, unquote(value))
        return endpoint

    def _with_parameter(self, name: str, value: str) -> ConnectEndpoint:
        match name:
            case "token":
                return replace(self, token=value)
            case "use_ssl":
                return replace(self, use_ssl=value.lower() == "true")
            case "user_id":
                return replace(self, user_id=value)
            case "session_id" | "user_agent":  # ours are derived
                return self
            case _:
                return replace(self, headers=(*self.headers, (name.lower(), value)))

    def url(self) -> str:
        """The URL for pyspark, *with* the token: for no log."""
        parameters = [("user_id", self.user_id), *self.headers]
        if self.use_ssl:
            parameters.append(("use_ssl", "true"))
        if self.token is not None:
            parameters.append(("token", self.token))
        # pyspark sends a token without TLS to the literal name `localhost` only.
        plain_token = self.token is not None and not self.use_ssl and self.is_loopback
        address = f"localhost:{self.port}" if plain_token else self.address
        return f"sc://{address}/;" + ";".join(f"{name}={quote(value, safe='')}" for name, value in parameters)

    def headers_of(self, session_id: str) -> tuple[tuple[str, str], ...]:
        """Metadata of a call of this session, without the token."""
        own = () if self.session_header is None else ((self.session_header, session_id),)
        return (*self.headers, *own)

    @property
    def address(self) -> str:
        """host:port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def is_encrypted(self) -> bool:
        """A token leaves the host only encrypted."""
        return self.use_ssl or (self.has_token and not self.is_loopback)

    @property
    def has_token(self) -> bool:
        return self.token is not None or self.token_source is not None

    def await_token(self) -> None:
        """Have a token at hand before the clock of a short call runs; blocks for as long as the source does.

        Raises:
            TokenUnavailableError: it gives none.
        """
        if self.token_source is not None:
            current_token(self.token_source)

    def may_renew_token(self, error: Any) -> bool:
        """Whether the gRPC error says that the token is refused, and its source may have a new one by now."""
        if self.token_source is None or not token_is_refused(error):
            return False
        refuse_token(self.token_source)
        return True

    def __str__(self) -> str:
        return f"sc://{self.address}"


def open_channel(endpoint: ConnectEndpoint) -> Any:
    """A `grpc.aio.Channel` for the running event loop. Nothing is sent yet; close it in the same loop."""
    import grpc.aio

    return _open(endpoint, grpc.aio.insecure_channel, grpc.aio.secure_channel)


def open_blocking_channel(endpoint: ConnectEndpoint) -> Any:
    """A `grpc.Channel` for code without an event loop. Nothing is sent yet; close it."""
    import grpc

    return _open(endpoint, grpc.insecure_channel, grpc.secure_channel)


def _open(endpoint: ConnectEndpoint, insecure: Callable[..., Any], secure: Callable[..., Any]) -> Any:
    import grpc

    options = channel_options(endpoint)
    if not endpoint.has_token and not endpoint.is_encrypted:
        return insecure(endpoint.address, options=options)
    credentials = grpc.ssl_channel_credentials() if endpoint.is_encrypted else grpc.local_channel_credentials()
    of_token = token_credentials(endpoint.token, endpoint.token_source, endpoint.token_header)
    if of_token is not None:
        credentials = grpc.composite_channel_credentials(credentials, of_token)
    return secure(endpoint.address, credentials, options=options)


def channel_options(endpoint: ConnectEndpoint) -> list[tuple[str, int | str]]:
    """gRPC options for a channel to this endpoint, also for pyspark's own client."""
    options: list[tuple[str, int | str]] = [
        ("grpc.primary_user_agent", endpoint.user_agent),
        ("grpc.max_send_message_length", _MESSAGE_BYTES),
        ("grpc.max_receive_message_length", _MESSAGE_BYTES),
        # A server that has been restarted is found again within seconds, not minutes.
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # The server closes connections that ping more often than every five minutes.
        ("grpc.keepalive_time_ms", 310_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
    if endpoint.is_loopback:
        options.append(("grpc.enable_http_proxy", 0))
    return options


def probe_blocking(endpoint: ConnectEndpoint, timeout: float = 3.0) -> str:
    """The server's Spark version ("4.2.0"), asked for in at most `timeout` seconds, once there is a token.

    Blocks: for code without an event loop. With one, see `Connection.abilities`.

    Raises:
        ConnectServerUnreachableError: nothing answers, or not in time.
        ConnectAccessDeniedError: it refuses the token.
        TokenUnavailableError: there is none.
    """
    import grpc

    endpoint.await_token()
    with open_blocking_channel(endpoint) as channel:
        try:
            stub, request = _stub(channel), version_request(endpoint)
            headers = endpoint.headers_of(request.session_id)
            try:
                response = stub.AnalyzePlan(request, timeout=timeout, metadata=headers)
            except grpc.RpcError as error:
                if not endpoint.may_renew_token(error):
                    raise
                endpoint.await_token()
                response = stub.AnalyzePlan(request, timeout=timeout, metadata=headers)
            with suppress(grpc.RpcError):  # a session that stays idle is dropped by the server in the end
                stub.ReleaseSession(release_request(request), timeout=timeout, metadata=headers)
            return str(response.spark_version.version)
        except grpc.RpcError as error:
            raise describe_unreachable(endpoint, error, timeout) from None


def _stub(channel: Any) -> Any:
    from airflow_abs.spark.connect.protocol import protos

    return protos().SparkConnectServiceStub(channel)


def version_request(endpoint: ConnectEndpoint) -> Any:
    """The `AnalyzePlan` that asks for the server's release, in a session to be released."""
    from airflow_abs.spark.connect.protocol import protos

    proto = protos()
    # A session of its own, random: a closed session's id can never be used again.
    request = proto.AnalyzePlanRequest(session_id=str(uuid.uuid4()), client_type=endpoint.user_agent)
    request.user_context.user_id = endpoint.user_id
    request.spark_version.SetInParent()
    return request


def release_request(request: Any) -> Any:
    """The end of the session of `version_request`."""
    from airflow_abs.spark.connect.protocol import protos

    return protos().ReleaseSessionRequest(session_id=request.session_id, user_context=request.user_context)


def describe_unreachable(endpoint: ConnectEndpoint, error: Any, seconds: float) -> SparkOperationError:
    """The error of a call that never reached a Spark Connect server of ours."""
    import grpc

    no_token = token_failure(error)
    if no_token is not None:
        return TokenUnavailableError(no_token)
    code, details = error.code(), (error.details() or "").splitlines()
    found = details[0] if details else code.name
    match code:
        case grpc.StatusCode.UNAUTHENTICATED | grpc.StatusCode.PERMISSION_DENIED:
            return ConnectAccessDeniedError(
                f"Spark Connect server at {endpoint.address} refuses user {endpoint.user_id!r} ({found}); "
                f"{'correct the source of tokens in' if endpoint.token_source else _PUT_TOKEN} the connection"
            )
        case grpc.StatusCode.UNIMPLEMENTED:
            found = "something else answers there"
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            found = f"no answer within {seconds:g} s"
    return ConnectServerUnreachableError(
        f"no Spark Connect server reachable at {endpoint.address}: {found}; {endpoint.remedy}"
    )
