"""One Spark Connect operation: its ids, and the requests about it other than running it (`execute.py`).

The server knows an operation by user, session and operation id. An operation continues when no client listens; it
ends by itself, by `interrupt_operation`, or after the server's detached timeout. Settings of its session are also
set here.
"""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.spark.connect.abilities import OPERATION_STATUS
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import TransientSparkError

_CHUNK_BYTES = 32 * 1024
"""What gRPC's authors recommend for a message of a stream."""
EVERY_SESSION = {
    # Spark 4.2.0 hangs forever in a Python UDF right above a columnar scan (SPARK-58241).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
    # Spark lists more than 32 paths with a job of its own, which by default has a task for each: 3.8 CPU s for 1,000
    # local files, 0.3 with so few tasks (docs/evidence). Not fewer, because object stores answer late.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}
"""Settings of every session, which those of a vertex may replace."""
_NAMESPACE = uuid.UUID("5b0b3c1e-63d4-5c0c-9d0e-0a1f5c5f2a0b")


def derive_id(*parts: object) -> str:
    """The UUID that these parts always give, in every process: for sessions and operations.

    A session id that was released (or timed out on the server) is refused forever, an operation id within
    its session too: put what makes them new (run, try) into the parts.
    """
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(f"{len(str(part))}:{part}" for part in parts)))


@dataclass(frozen=True, slots=True)
class Operation:
    """What to execute: `plan` is a serialised `spark.connect.Plan` (a relation or a command).

    `server_session` is what `set_config` returned: the server refuses the plan in a session of another one's settings.
    """

    session_id: str
    operation_id: str
    plan: bytes = field(repr=False)
    tags: tuple[str, ...] = ()
    server_session: str = ""


async def is_alive(connection: Connection, operation: Operation) -> bool:
    """Whether the server runs the operation or keeps its answer.

    Raises:
        SparkOperationError: the server does not answer.
    """
    try:
        if not (await connection.abilities()).has(OPERATION_STATUS):
            return await _is_kept(connection, operation)
        states = protos().GetStatusResponse.OperationStatus.OperationState
        alive = {states.OPERATION_STATE_RUNNING, states.OPERATION_STATE_TERMINATING, states.OPERATION_STATE_SUCCEEDED}
        return not alive.isdisjoint(await _read_states(connection, operation))
    except TransientSparkError as error:
        if _is_unknown(error):
            return False
        raise


async def _is_kept(connection: Connection, operation: Operation) -> bool:
    """Whether the server has the operation, told by its reply to the release of an unknown response.

    It refuses that for an operation that it has, and otherwise accepts it; either way nothing changes.
    """
    request = _release_request(connection, operation)
    request.release_until.response_id = str(uuid.UUID(int=0))
    try:
        await connection.call("ReleaseExecute", request)
    except TransientSparkError as error:
        if error.error_class == "INVALID_CURSOR.POSITION_NOT_FOUND":
            return True
        raise
    return False


async def _read_states(connection: Connection, operation: Operation) -> tuple[int, ...]:
    """The states of the operation, as `GetStatus` numbers them; () if its session does not know it."""
    request = protos().GetStatusRequest(
        session_id=operation.session_id, user_context=connection.user_context(), client_type=connection.client_type
    )
    request.operation_status.operation_ids.append(operation.operation_id)
    response = await connection.call("GetStatus", request)
    return tuple(status.state for status in response.operation_statuses)


async def release_operation(connection: Connection, operation: Operation) -> None:
    """Let the server forget the operation and its outcome. Afterwards the same request is refused.

    One that the server does not know (any more) is fine.
    """
    request = _release_request(connection, operation)
    request.release_all.SetInParent()
    await _call_if_there(connection, "ReleaseExecute", request)


def _release_request(connection: Connection, operation: Operation) -> Any:
    return protos().ReleaseExecuteRequest(
        session_id=operation.session_id,
        operation_id=operation.operation_id,
        user_context=connection.user_context(),
        client_type=connection.client_type,
    )


async def interrupt_operation(connection: Connection, session_id: str, operation_id: str) -> tuple[str, ...]:
    """Stop one operation; its waiters get OperationCancelledError. Its id if it was there, else ()."""
    return await _interrupt(connection, session_id, "INTERRUPT_TYPE_OPERATION_ID", operation_id=operation_id)


async def interrupt_tag(connection: Connection, session_id: str, tag: str) -> tuple[str, ...]:
    """Stop every operation of the session that carries the tag. The ids of those that were there."""
    return await _interrupt(connection, session_id, "INTERRUPT_TYPE_TAG", operation_tag=tag)


async def _interrupt(connection: Connection, session_id: str, kind: str, **what: str) -> tuple[str, ...]:
    proto = protos()
    request = proto.InterruptRequest(
        session_id=session_id,
        user_context=connection.user_context(),
        client_type=connection.client_type,
        interrupt_type=getattr(proto.InterruptRequest.InterruptType, kind),
        **what,
    )
    response = await _call_if_there(connection, "Interrupt", request)
    return tuple(response.interrupted_ids) if response is not None else ()


async def release_session(connection: Connection, session_id: str) -> None:
    """End the session and every operation in it. Its id may be used again. An unknown session is fine."""
    request = protos().ReleaseSessionRequest(
        session_id=session_id,
        user_context=connection.user_context(),
        client_type=connection.client_type,
        allow_reconnect=True,
    )
    await _call_if_there(connection, "ReleaseSession", request)


async def set_config(connection: Connection, session_id: str, values: Mapping[str, str]) -> str:
    """Set Spark settings of a session, which this creates if need be.

    Returns:
        The server's own id of the session. A server or service that was restarted, or has dropped an idle session, has
        another one, without these settings, under the same `session_id`.
    """
    request = _config_request(connection, session_id)
    request.operation.set.SetInParent()
    for key in sorted(values):
        request.operation.set.pairs.add(key=key, value=values[key])
    response = await connection.call("Config", request)
    return str(response.server_side_session_id)


async def get_config(connection: Connection, session_id: str, keys: Sequence[str]) -> dict[str, str | None]:
    """Values of Spark settings in a session, None where one is not set and has no default."""
    request = _config_request(connection, session_id)
    request.operation.get_option.keys.extend(keys)
    response = await connection.call("Config", request)
    return {pair.key: (pair.value if pair.HasField("value") else None) for pair in response.pairs}


async def add_py_files(connection: Connection, session_id: str, files: Mapping[str, bytes]) -> None:
    """Put Python files, by name, on the path of the session's functions; again is fine, another content is refused."""
    requests = [request for name, data in files.items() for request in _chunks(f"pyfiles/{name}", data)]
    for request in requests:
        request.session_id, request.client_type = session_id, connection.client_type
        request.user_context.CopyFrom(connection.user_context())
    response = await connection.call("AddArtifacts", requests, session_id=session_id)
    broken = [artifact.name for artifact in response.artifacts if not artifact.is_crc_successful]
    if broken:
        raise TransientSparkError(f"{', '.join(broken)} reached the Spark server with a different checksum")


def _chunks(name: str, data: bytes) -> Iterator[Any]:
    """The messages that bring one artifact."""
    proto = protos().AddArtifactsRequest
    pieces = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)] or [b""]
    chunks = [proto.ArtifactChunk(data=piece, crc=zlib.crc32(piece)) for piece in pieces]
    if len(chunks) == 1:
        yield proto(batch=proto.Batch(artifacts=[proto.SingleChunkArtifact(name=name, data=chunks[0])]))
        return
    yield proto(
        begin_chunk=proto.BeginChunkedArtifact(
            name=name, total_bytes=len(data), num_chunks=len(chunks), initial_chunk=chunks[0]
        )
    )
    for chunk in chunks[1:]:
        yield proto(chunk=chunk)


def _config_request(connection: Connection, session_id: str) -> Any:
    return protos().ConfigRequest(
        session_id=session_id, user_context=connection.user_context(), client_type=connection.client_type
    )


async def _call_if_there(connection: Connection, method: str, request: Any) -> Any:
    """The answer, or None if the server knows no such session or operation (any more)."""
    try:
        return await connection.call(method, request)
    except TransientSparkError as error:
        if _is_unknown(error):
            return None
        raise


def _is_unknown(error: TransientSparkError) -> bool:
    """Whether the server says that it does not know the session or operation (any more)."""
    return error.error_class.startswith("INVALID_HANDLE.")
