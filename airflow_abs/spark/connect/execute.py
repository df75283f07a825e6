"""Execute one Spark Connect operation. Any process that sends the identical request awaits it.

To send the same plan under the same ids again attaches to what is running there (or has ended) and gives its
answers again, so no sender has to know whether another process has sent it before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import Operation, interrupt_operation, is_alive
from airflow_abs.spark.connect.response_stream import ResponseStream
from airflow_abs.spark.errors import OperationCancelledError, OperationTakenOverError, OperationTimeoutError


@dataclass(frozen=True, slots=True)
class StageProgress:
    """One of Spark's stages. Spark lists a stage that it has run already a second time, with no task done, where a
    later job reads what it wrote."""

    number: int
    tasks_done: int
    tasks_total: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far Spark is. Of the stages known so far: more may come.

    `tasks_running` of 0 with tasks to do means waiting for a free core. `input_bytes` undercounts Parquet. `stages` are
    in the order in which Spark made them. `vertices` are the shares of work that is done, by vertex, where these can be
    told; `unattributed` says in a few words why not.
    """

    tasks_done: int
    tasks_total: int
    tasks_running: int
    stages_done: int
    stages_total: int
    input_bytes: int
    stages: tuple[StageProgress, ...] = ()
    vertices: Mapping[str, float] = field(default_factory=dict)
    unattributed: str = ""


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """A finished operation. `seconds` is how long this process awaited it.

    `reattached` counts streams after the first; `metrics` are those of the last plan, {plan node: {metric: value}};
    `observed` are serialised `ObservedMetrics` messages by name; `arrow_batches` hold the rows of a relation as Arrow
    IPC streams (a command has none). `answers` are serialised responses of commands on streaming queries.
    """

    seconds: float
    reattached: int = 0
    metrics: dict[str, dict[str, int]] = field(default_factory=dict)
    observed: dict[str, bytes] = field(default_factory=dict, repr=False)
    arrow_batches: tuple[bytes, ...] = field(default=(), repr=False)
    answers: tuple[bytes, ...] = field(default=(), repr=False)


_ANSWERS = frozenset(
    {
        "write_stream_operation_start_result",
        "streaming_query_command_result",
        "streaming_query_manager_command_result",
    }
)

ProgressListener = Callable[[Progress], None]


async def execute_operation(
    connection: Connection,
    operation: Operation,
    *,
    on_progress: ProgressListener | None = None,
    timeout: float | None = None,
) -> OperationOutcome:
    """Start the operation or attach to it, and await its end.

    Cancelling the coroutine only detaches: the operation continues and can be awaited again, by any process.
    The outcome stays on the server until `release_operation`: call that last, when everything that
    depends on it is stored. With `timeout` (seconds) it is interrupted when time is up.

    Raises:
        SparkOperationError: one of its kinds, see errors.py. OperationTakenOverError: another process awaits it now.
    """
    started = time.monotonic()
    collected = _Collected(on_progress)
    stream = ResponseStream(connection, operation, collected.take)
    clock = asyncio.timeout(timeout)
    try:
        async with clock:
            await stream.read_to_end()
    except OperationTakenOverError:
        # A listener is cut off in the same words when another one takes over and when the session is ended.
        if await is_alive(connection, operation):
            raise
        raise OperationCancelledError(
            f"Spark operation {operation.operation_id} was ended together with its session, which was released"
        ) from None
    except TimeoutError:
        if not clock.expired():
            raise
        await interrupt_operation(connection, operation.session_id, operation.operation_id)
        raise OperationTimeoutError(
            f"Spark operation {operation.operation_id} ran longer than the {timeout:g} s it was allowed and was "
            "interrupted; raise the limit, or lower the target bytes per subtask"
        ) from None
    return OperationOutcome(
        seconds=time.monotonic() - started,
        reattached=stream.streams - 1,
        metrics=collected.metrics,
        observed=collected.observed,
        arrow_batches=tuple(collected.arrow_batches),
        answers=tuple(collected.answers),
    )


class _Collected:
    """What the answers of an operation add up to."""

    def __init__(self, on_progress: ProgressListener | None) -> None:
        self.metrics: dict[str, dict[str, int]] = {}
        self.observed: dict[str, bytes] = {}
        self.arrow_batches: list[bytes] = []
        self.answers: list[bytes] = []
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
        if response.WhichOneof("response_type") in _ANSWERS:
            self.answers.append(response.SerializeToString())


def _progress(message: Any) -> Progress:
    stages = message.stages
    return Progress(
        tasks_done=sum(stage.num_completed_tasks for stage in stages),
        tasks_total=sum(stage.num_tasks for stage in stages),
        tasks_running=message.num_inflight_tasks,
        stages_done=sum(stage.done for stage in stages),
        stages_total=len(stages),
        input_bytes=sum(stage.input_bytes_read for stage in stages),
        stages=tuple(
            StageProgress(stage.stage_id, stage.num_completed_tasks, stage.num_tasks)
            for stage in sorted(stages, key=lambda stage: stage.stage_id)
        ),
    )
