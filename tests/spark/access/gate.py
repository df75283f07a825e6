"""A gRPC proxy before a real Spark Connect server, as a managed service has one: it wants a header, and tokens end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc

from airflow_abs.spark.connect.endpoint import ConnectEndpoint, open_blocking_channel

HEADER = ("x-cluster-id", "s3cret-cluster")


@dataclass(slots=True)
class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]
    """`tokens` are those that it takes, with the end of each by the monotonic clock.

    `asked` are the methods of calls that got through, `refused` those that did not, `agents` who called.
    """

    upstream: Any
    port: int = 0
    tokens: dict[str, float] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    agents: set[str] = field(default_factory=set)

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(lambda requests, context: self._pass(details, requests, context))

    def _pass(self, details: Any, requests: Iterator[bytes], context: Any) -> Iterator[bytes]:
        sent = dict(details.invocation_metadata)
        method = details.method.rpartition("/")[2]
        self.agents.add(sent["user-agent"].partition(" grpc-")[0])
        token = sent.get("authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, 0.0) < time.monotonic() or sent.get(HEADER[0]) != HEADER[1]:
            self.refused.append(method)
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token has ended, or the header is missing")
        self.asked.append(method)
        call = self.upstream.stream_stream(details.method)(requests)
        context.add_callback(call.cancel)
        try:
            yield from call
            context.set_trailing_metadata(call.trailing_metadata())
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata() or ())  # type: ignore[attr-defined]
            context.abort(error.code(), error.details())  # type: ignore[attr-defined]


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
