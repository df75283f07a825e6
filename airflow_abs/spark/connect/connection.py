"""An open way to a Spark Connect server, shared by everything in one event loop that talks to it."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.spark.access.credentials import token_failure
from airflow_abs.spark.connect.abilities import Abilities
from airflow_abs.spark.connect.endpoint import (
    ConnectEndpoint,
    describe_unreachable,
    open_channel,
    release_request,
    version_request,
)
from airflow_abs.spark.connect.error_details import FailedCall, is_connection_lost, read_error
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError

CALL_SECONDS = 60.0
PATIENCE_SECONDS = 15.0
_BACKOFF_SECONDS = 0.2


@dataclass(slots=True, eq=False)
class Connection:
    """Calls to one server as one user. Get it from `open_connection`.

    `known` is what it has found out about the server's abilities; tests may give it.
    """

    endpoint: ConnectEndpoint
    stub: Any = field(repr=False)
    known: Abilities | None = None

    @property
    def client_type(self) -> str:
        return self.endpoint.user_agent

    def user_context(self) -> Any:
        return protos().UserContext(user_id=self.endpoint.user_id)

    async def call(
        self, method: str, request: Any, *, patience: float = PATIENCE_SECONDS, session_id: str | None = None
    ) -> Any:
        """One short call that may be repeated, and is for `patience` seconds while the server does not answer.

        `request` may be a list of messages of the session, for a method that takes a stream.

        Raises:
            SparkOperationError: the server's own error, or ConnectServerUnreachableError.
        """
        import grpc

        started, renewed = time.monotonic(), False
        session = session_id or request.session_id
        headers = self.endpoint.headers_of(session)
        while True:
            try:
                return await getattr(self.stub, method)(request, timeout=CALL_SECONDS, metadata=headers)
            except grpc.RpcError as error:
                if not renewed and self.endpoint.may_renew_token(error):
                    renewed = True
                    continue
                waited = time.monotonic() - started
                if not is_connection_lost(error):
                    raise await self.read_error(error, session) from None
                if waited >= patience:
                    raise describe_unreachable(self.endpoint, error, CALL_SECONDS) from None
                await asyncio.sleep(_BACKOFF_SECONDS)

    async def abilities(self) -> Abilities:
        """What the server can do; the first call asks for its release.

        Raises:
            SparkOperationError: see `call`.
        """
        if self.known is None:
            request = version_request(self.endpoint)
            answer = await self.call("AnalyzePlan", request)
            self.known = Abilities.of_release(answer.spark_version.version)
            with suppress(SparkOperationError):  # a session that stays idle is dropped by the server in the end
                await self.call("ReleaseSession", release_request(request), patience=0)
        return self.known

    async def read_error(self, error: Any, session_id: str) -> Exception:
        """The typed error behind a gRPC error, with the details that only the server has."""
        import grpc

        code = grpc.StatusCode
        unreached = {code.UNAUTHENTICATED, code.PERMISSION_DENIED, code.UNIMPLEMENTED, code.DEADLINE_EXCEEDED}
        if error.code() in unreached or token_failure(error) is not None:
            return describe_unreachable(self.endpoint, error, CALL_SECONDS)
        endpoint = self.endpoint
        headers = endpoint.headers_of(session_id)
        call = FailedCall(self.stub, self.user_context(), session_id, headers, endpoint.user_agent)
        return await read_error(call, error)


@dataclass(slots=True)
class _SharedChannel:
    channel: Any
    connection: Connection
    users: int = 0


_channels: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ConnectEndpoint, _SharedChannel]] = (
    weakref.WeakKeyDictionary()
)


def _load_modules() -> None:
    import grpc.aio  # noqa: F401

    protos()


@asynccontextmanager
async def open_connection(endpoint: ConnectEndpoint) -> AsyncIterator[Connection]:
    """A connection, closed when its last user in this event loop leaves.

    Nothing is sent before the first call: a server that is not there shows then (or in `probe_blocking`).
    A hundred operations share one TCP connection.
    """
    await asyncio.to_thread(_load_modules)  # the first time takes 0.1 to 0.3 s, which would block this loop
    of_loop = _channels.setdefault(asyncio.get_running_loop(), {})
    shared = of_loop.get(endpoint)
    if shared is None:
        channel = open_channel(endpoint)
        shared = _SharedChannel(channel, Connection(endpoint, protos().SparkConnectServiceStub(channel)))
        of_loop[endpoint] = shared
    shared.users += 1
    try:
        yield shared.connection
    finally:
        shared.users -= 1
        if shared.users == 0:
            if of_loop.get(endpoint) is shared:
                del of_loop[endpoint]
            await shared.channel.close()
