"""Reading the answers of one operation over as many gRPC streams as it takes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.endpoint import describe_unreachable
from airflow_abs.spark.connect.error_details import is_connection_lost
from airflow_abs.spark.connect.operations import Operation, is_alive
from airflow_abs.spark.connect.protocol import protos

# The server ends every stream after two minutes at the latest; a stream that is silent for longer is dead.
SILENCE_SECONDS = 180.0
# Waits of 0.1, 0.2, 0.4 ... 5 s: half a minute in all, then the operation counts as lost.
_LOSSES = 10
_FIRST_BACKOFF_SECONDS = 0.1
_LONGEST_BACKOFF_SECONDS = 5.0


class _SilentError(Exception):
    """A stream has not said anything for longer than a server keeps one open."""


class ResponseStream:
    """Feeds every answer of an operation, each once and in order, to `on_response`."""

    def __init__(self, connection: Connection, operation: Operation, on_response: Callable[[Any], None]) -> None:
        self.streams = 0
        self._connection = connection
        self._operation = operation
        self._on_response = on_response
        self._last_response_id = ""
        self._server_session_id = operation.server_session
        self._complete = False

    async def read_to_end(self) -> None:
        """Until the server says that the result is complete.

        Raises:
            SparkOperationError: the operation failed, or its server is lost.
        """
        import grpc

        losses, renewed = 0, False
        while True:
            opened, position = time.monotonic(), self._last_response_id
            error: Any = None
            try:
                await self._read_one_stream()
            except grpc.RpcError as caught:
                renewed = renewed and self._last_response_id == position
                if not renewed and self._connection.endpoint.may_renew_token(caught):
                    renewed = True
                    continue
                if not is_connection_lost(caught):
                    raise await self._connection.read_error(caught, self._operation.session_id) from None
                error = caught
            except _SilentError:
                # A server that answers is only configured to keep streams open for longer.
                await is_alive(self._connection, self._operation)
            if self._complete:
                return
            # A stream that just ended has reached the server's time limit. One that ends at once and empty has not.
            moved = self._last_response_id != position
            lost = error is not None or (not moved and time.monotonic() - opened < 1.0)
            losses = 0 if moved else losses + 1 if lost else losses
            if losses > _LOSSES:
                raise self._lost(error)
            if lost:
                await asyncio.sleep(min(_FIRST_BACKOFF_SECONDS * 2**losses, _LONGEST_BACKOFF_SECONDS))

    async def _read_one_stream(self) -> None:
        import grpc.aio

        call = self._open()
        self.streams += 1
        try:
            while not self._complete:
                try:
                    async with asyncio.timeout(SILENCE_SECONDS) as clock:
                        response = await call.read()
                except TimeoutError:
                    if clock.expired():
                        raise _SilentError from None
                    raise
                if response is grpc.aio.EOF:
                    return
                self._take(response)
        finally:
            call.cancel()  # only the listening: the operation continues

    def _take(self, response: Any) -> None:
        self._last_response_id = response.response_id
        self._server_session_id = response.server_side_session_id
        self._complete = response.HasField("result_complete")
        self._on_response(response)

    def _open(self) -> Any:
        stub, headers = self._connection.stub, self._connection.endpoint.headers_of(self._operation.session_id)
        if self._last_response_id:
            # Never the plan again: a server that was restarted meanwhile would run it a second time.
            return stub.ReattachExecute(self._reattach_request(), metadata=headers)
        return stub.ExecutePlan(self._execute_request(), metadata=headers)

    def _execute_request(self) -> Any:
        proto = protos()
        request = proto.ExecutePlanRequest(
            session_id=self._operation.session_id,
            operation_id=self._operation.operation_id,
            user_context=self._connection.user_context(),
            plan=proto.Plan.FromString(self._operation.plan),
            client_type=self._connection.client_type,
            tags=self._operation.tags,
        )
        if self._server_session_id:
            request.client_observed_server_side_session_id = self._server_session_id
        request.request_options.add().reattach_options.reattachable = True
        return request

    def _reattach_request(self) -> Any:
        return protos().ReattachExecuteRequest(
            session_id=self._operation.session_id,
            operation_id=self._operation.operation_id,
            user_context=self._connection.user_context(),
            client_observed_server_side_session_id=self._server_session_id,
            last_response_id=self._last_response_id,
            client_type=self._connection.client_type,
        )

    def _lost(self, error: Any) -> Exception:
        endpoint = self._connection.endpoint
        if error is not None:
            return describe_unreachable(endpoint, error, SILENCE_SECONDS)
        from airflow_abs.spark.errors import TransientSparkError

        return TransientSparkError(
            f"Spark Connect server at {endpoint.address} ended {_LOSSES} streams of operation "
            f"{self._operation.operation_id} without an answer; check its log"
        )
