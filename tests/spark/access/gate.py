"""A gRPC proxy before a real Spark Connect server, as a managed service has one: headers it wants, tokens that end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from airflow_abs.spark.connect.endpoint import ConnectEndpoint, open_blocking_channel

_ID_BYTES = 36


@dataclass(frozen=True, slots=True)
class Profile:
    """What a service wants of every call, by its public documents and its own clients.

    `token_header` takes the token as it is; without one, `authorization` takes it as a bearer's. `session_header` is
    one whose value is the id of the Spark session in the message. `extra` is the connection's.
    """

    name: str
    headers: tuple[tuple[str, str], ...] = ()
    token_header: str | None = None
    session_header: str | None = None

    @property
    def extra(self) -> dict[str, Any]:
        named = {"token_header": self.token_header, "session_header": self.session_header}
        headers = {"headers": dict(self.headers)} if self.headers else {}
        return headers | {name: value for name, value in named.items() if value is not None}

    def token_of(self, sent: dict[str, str]) -> str:
        if self.token_header is not None:
            return "" if "authorization" in sent else sent.get(self.token_header, "")
        scheme, _, token = sent.get("authorization", "").partition(" ")
        return token if scheme == "Bearer" else ""


# sc://HOST:443/;token=TOKEN;x-databricks-cluster-id=ID, from Databricks' "Advanced usage of Databricks Connect".
DATABRICKS_CLUSTER = Profile("databricks cluster", headers=(("x-databricks-cluster-id", "s3cret-cluster"),))
# Databricks' own client makes up a session's id and sends it in the header, too.
DATABRICKS_SERVERLESS = Profile("databricks serverless", session_header="x-databricks-session-id")
# sc://HOST:443/;use_ssl=true;x-aws-proxy-auth=TOKEN, the token of GetSessionEndpoint: EMR, EMR Serverless and Glue.
AMAZON_PROXY = Profile("amazon proxy", token_header="x-aws-proxy-auth")
PROFILES = (DATABRICKS_CLUSTER, DATABRICKS_SERVERLESS, AMAZON_PROXY)


@dataclass(slots=True)
class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`tokens` are those that it takes, with the end of each by the monotonic clock.

    `asked` are the methods of calls that got through, `refused` those that did not, `agents` who called.
    `is_idle`: the service has ended what is behind it, as after a time without calls.
    """

    upstream: Any
    port: int = 0
    profile: Profile = DATABRICKS_CLUSTER
    tokens: dict[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)
    is_idle: bool = False

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: self._pass(details, requests, context))

    def _pass(self, details: Any, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        sent = dict(details.invocation_metadata)
        method = details.method.rpartition("/")[2]
        self.agents.add(sent["user-agent"].partition(" grpc-")[0])
        if self.is_idle:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the session has been terminated")
        messages = list(requests)
        if not self._takes(sent, messages[0]):
            self.refused.append(method)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token has ended, or the header is missing")
        self.asked.append(method)
        call = self.upstream.stream_stream(details.method)(iter(messages))
        context.add_callback(call.cancel)
        try:
            yield from call
            context.set_trailing_metadata(call.trailing_metadata())
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())  # type: ignore[attr-defined]
            context.abort(error.code(), error.details())  # type: ignore[attr-defined]

    def _takes(self, sent: dict[str, str], message: bytes) -> bool:
        profile = self.profile
        wanted = dict(profile.headers)
        if profile.session_header is not None:
            wanted[profile.session_header] = session_of(message)
        has_headers = all(sent.get(name) == value for name, value in wanted.items())
        return has_headers and self.tokens.get(profile.token_of(sent), 0.0) >= time.monotonic()


def session_of(message: bytes) -> str:
    """The id of the session that a call belongs to: the first field of every message of the service."""
    assert message[:2] == bytes([0x0A, _ID_BYTES])
    return message[2 : 2 + _ID_BYTES].decode()


@contextmanager
def open_gate(server: ConnectEndpoint) -> Iterator[Gate]:
    """On a free port of loopback."""
    with open_blocking_channel(server) as upstream:
        gate = Gate(upstream)
        listener = grpc.server(ThreadPoolExecutor(32), handlers=[gate])
        gate.port = listener.add_insecure_port("127.0.0.1:0")
        listener.start()
        try:
            yield gate
        finally:
            listener.stop(0).wait()
