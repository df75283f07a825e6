"""One Spark Connect operation, awaited from anywhere: by whoever sends the identical request.

The server knows an operation by user, session and operation id. To send the same plan under the same ids again
attaches to what is running there (or has ended) and replays its answers, so nobody who sends has to know whether
another process has sent before. An operation goes on when nobody listens; it ends by itself, by
`interrupt_operation`, or after the server's detached timeout.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.spark.connect.connection import CLIENT_TYPE, Connection
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.connect.response_stream import ResponseStream
from airflow_abs.spark.errors import (
    OperationCancelledError,
    OperationTakenOverError,
    OperationTimeoutError,
    TransientSparkError,
)

_NAMESPACE = uuid.UUID("5b0b3c1e-63d4-5c0c-9d0e-0a1f5c5f2a0b")


def derive_id(*parts: object) -> str:
    """The UUID that these parts always give, in every process: for sessions and operations.

    A session id that was released (or timed out on the server) is refused for ever, an operation id within
    its session too: put what makes them new (run, try) into the parts.
    """
    return str(uuid.uuid5(_NAMESPACE, "\x1f".join(f"{len(str(part))}:{part}" for part in parts)))


@dataclass(frozen=True, slots=True)
class Operation:
    """What to execute: `plan` is a serialised `spark.connect.Plan` (a relation or a command)."""

    session_id: str
    operation_id: str
    plan: bytes = field(repr=False)
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far Spark is. Of the stages known so far: more may come.

    `tasks_running` of 0 with tasks to do means waiting for a free core. `input_bytes` undercounts Parquet.
    """

    tasks_done: int
    tasks_total: int
    tasks_running: int
    stages_done: int
    stages_total: int
    input_bytes: int


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """A finished operation. `seconds` is how long this process awaited it.

    `reattached` counts streams after the first; `metrics` are those of the last plan, {plan node: {metric: value}};
    `observed` are serialised `ObservedMetrics` messages by name; `arrow_batches` hold the rows of a relation as Arrow
    IPC streams (a command has none).
    """

    seconds: float
    reattached: int = 0
    metrics: dict[str, dict[str, int]] = field(default_factory=dict)
    observed: dict[str, bytes] = field(default_factory=dict, repr=False)
    arrow_batches: tuple[bytes, ...] = field(default=(), repr=False)


ProgressListener = Callable[[Progress], None]


async def execute_operation(
    connection: Connection,
    operation: Operation,
    *,
    on_progress: ProgressListener | None = None,
    timeout: float | None = None,
) -> OperationOutcome:
    """Start the operation or attach to it, and await its end.

    Cancelling the coroutine only detaches: the operation goes on and can be awaited again, by any process.
    The outcome stays on the server until `release_operation`: call that last, when everything that
    depends on it is stored. With `timeout` (seconds) it is interrupted when time is up.

    Raises:
        SparkOperationError: one of its kinds, see errors.py. OperationTakenOverError: somebody else awaits it now.
    """
    started = time.monotonic()
    collected = _Collected(on_progress)
    stream = ResponseStream(connection, operation, collected.take)
    clock = asyncio.timeout(timeout)
    try:
        async with clock:
            await stream.read_to_end()
    except OperationTakenOverError:
        await _check_it_lives(connection, operation)
        raise
    except TimeoutError:
        if not clock.expired():
            raise
        await interrupt_operation(connection, operation.session_id, operation.operation_id)
        raise OperationTimeoutError(
            f"Spark operation {operation.operation_id} ran longer than the {timeout:g} s it was given and was "
            "interrupted; raise the limit, or lower the target bytes per subtask"
        ) from None
    return OperationOutcome(
        seconds=time.monotonic() - started,
        reattached=stream.streams - 1,
        metrics=collected.metrics,
        observed=collected.observed,
        arrow_batches=tuple(collected.arrow_batches),
    )


class _Collected:
    """What the answers of an operation add up to."""

    def __init__(self, on_progress: ProgressListener | None) -> None:
        self.metrics: dict[str, dict[str, int]] = {}
        self.observed: dict[str, bytes] = {}
        self.arrow_batches: list[bytes] = []
        self._on_progress = on_progress

    def take(self, response: Any) -> None:
        if response.HasField("execution_progress") and self._on_progress is not None:
            self._on_progress(_progress(response.execution_progress))
        if response.HasField("metrics"):
            self.metrics = {
                f"{node.plan_id}:{node.name}": {key: metric.value for key, metric in node.execution_metrics.items()}
                for node in response.metrics.metrics
            }
        for observed in response.observed_metrics:
            self.observed[observed.name] = observed.SerializeToString()
        if response.HasField("arrow_batch"):
            self.arrow_batches.append(response.arrow_batch.data)


def _progress(message: Any) -> Progress:
    stages = message.stages
    return Progress(
        tasks_done=sum(stage.num_completed_tasks for stage in stages),
        tasks_total=sum(stage.num_tasks for stage in stages),
        tasks_running=message.num_inflight_tasks,
        stages_done=sum(stage.done for stage in stages),
        stages_total=len(stages),
        input_bytes=sum(stage.input_bytes_read for stage in stages),
    )


async def _check_it_lives(connection: Connection, operation: Operation) -> None:
    """A listener is cut off in the same words when another one takes over and when the session is ended.

    Raises:
        OperationCancelledError: it was the latter.
    """
    request = protos().GetStatusRequest(
        session_id=operation.session_id, user_context=connection.user_context(), client_type=CLIENT_TYPE
    )
    request.operation_status.operation_ids.append(operation.operation_id)
    response = await _call_if_there(connection, "GetStatus", request)
    states = protos().GetStatusResponse.OperationStatus.OperationState
    alive = {states.OPERATION_STATE_RUNNING, states.OPERATION_STATE_TERMINATING, states.OPERATION_STATE_SUCCEEDED}
    if response is None or not any(status.state in alive for status in response.operation_statuses):
        raise OperationCancelledError(
            f"Spark operation {operation.operation_id} was ended together with its session; somebody released it"
        )


async def release_operation(connection: Connection, operation: Operation) -> None:
    """Let the server forget the operation and its outcome. Afterwards the same request is refused.

    One that the server does not know (any more) is fine.
    """
    request = protos().ReleaseExecuteRequest(
        session_id=operation.session_id,
        operation_id=operation.operation_id,
        user_context=connection.user_context(),
        client_type=CLIENT_TYPE,
    )
    request.release_all.SetInParent()
    await _call_if_there(connection, "ReleaseExecute", request)


async def interrupt_operation(connection: Connection, session_id: str, operation_id: str) -> tuple[str, ...]:
    """Stop one operation; whoever awaits it gets OperationCancelledError. Its id if it was there, else ()."""
    return await _interrupt(connection, session_id, "INTERRUPT_TYPE_OPERATION_ID", operation_id=operation_id)


async def interrupt_tag(connection: Connection, session_id: str, tag: str) -> tuple[str, ...]:
    """Stop every operation of the session that carries the tag. The ids of those that were there."""
    return await _interrupt(connection, session_id, "INTERRUPT_TYPE_TAG", operation_tag=tag)


async def _interrupt(connection: Connection, session_id: str, kind: str, **what: str) -> tuple[str, ...]:
    proto = protos()
    request = proto.InterruptRequest(
        session_id=session_id,
        user_context=connection.user_context(),
        client_type=CLIENT_TYPE,
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
        client_type=CLIENT_TYPE,
        allow_reconnect=True,
    )
    await _call_if_there(connection, "ReleaseSession", request)


async def set_config(connection: Connection, session_id: str, values: Mapping[str, str]) -> None:
    """Set Spark settings of a session, which this creates if need be."""
    request = _config_request(connection, session_id)
    request.operation.set.SetInParent()
    for key in sorted(values):
        request.operation.set.pairs.add(key=key, value=values[key])
    await connection.call("Config", request)


async def get_config(connection: Connection, session_id: str, keys: Sequence[str]) -> dict[str, str | None]:
    """Values of Spark settings in a session, None where one is not set and has no default."""
    request = _config_request(connection, session_id)
    request.operation.get_option.keys.extend(keys)
    response = await connection.call("Config", request)
    return {pair.key: (pair.value if pair.HasField("value") else None) for pair in response.pairs}


def _config_request(connection: Connection, session_id: str) -> Any:
    return protos().ConfigRequest(
        session_id=session_id, user_context=connection.user_context(), client_type=CLIENT_TYPE
    )


async def _call_if_there(connection: Connection, method: str, request: Any) -> Any:
    """The answer, or None if the server knows no such session or operation (any more)."""
    try:
        return await connection.call(method, request)
    except TransientSparkError as error:
        if error.error_class.startswith("INVALID_HANDLE."):
            return None
        raise
