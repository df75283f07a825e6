"""One try of one subtask: run it to its end, in a worker or in the triggerer, and stop it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from airflow.triggers.base import TriggerEvent

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.execution.cancellation import keep_message
from airflow_abs.execution.task_end import error_to_json, succeed
from airflow_abs.execution.time_limit import TimeIsUpError, run_within
from airflow_abs.hooks.storage import open_path

if TYPE_CHECKING:
    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint
    from airflow_abs.spark.run.subtask import SubtaskAttempt

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 5.0
_AWAY_SECONDS = 30.0


class SubtaskTask(Protocol):
    """What describes the subtasks of a region alike in their operator and in their trigger."""

    conn_id: str
    exchange: str
    job: str
    region: str
    stall_after: float
    ephemeral: bool


@dataclass(frozen=True, slots=True)
class SubtaskRun:
    """One try of one mapped task instance, as plain values: the worker and the triggerer run it alike.

    `began` is when the first of them took it up, in epoch seconds; None if that is now.
    """

    conn_id: str
    exchange: str
    dag_id: str
    run_id: str
    job: str
    task_id: str
    map_index: int
    region: str
    attempt: int
    subtask: Mapping[str, Any]
    stall_after: float
    began: float | None = None
    ephemeral: bool = False

    @classmethod
    def of(cls, instance: Any, task: SubtaskTask, subtask: Mapping[str, Any], began: float | None = None) -> SubtaskRun:
        """The try that a task instance is at, as worker or triggerer know it."""
        return cls(
            conn_id=task.conn_id,
            exchange=task.exchange,
            job=task.job,
            region=task.region,
            stall_after=task.stall_after,
            ephemeral=task.ephemeral,
            dag_id=instance.dag_id,
            run_id=instance.run_id,
            task_id=instance.task_id,
            map_index=-1 if instance.map_index is None else instance.map_index,
            attempt=instance.try_number,
            subtask=subtask,
            began=began,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def name(self) -> str:
        """``try 2 of job.orders.run[3], run daily-1 of dag sales``: it is the only one of that name."""
        return f"try {self.attempt} of {self.task_id}[{self.map_index}], run {self.run_id} of dag {self.dag_id}"

    def failed(self, error: Exception) -> TriggerEvent:
        """The event that lets a worker raise the error."""
        return TriggerEvent({"error": error_to_json(error), "of": self.name})

    @property
    def folder(self) -> JobFolder:
        return JobFolder(open_path(self.exchange), self.dag_id, self.run_id, self.job)

    async def aopen_folder(self) -> JobFolder:
        """For event loops: Airflow asks for the connection of a store, and the store for credentials, with calls that
        must not run in one."""
        return await asyncio.to_thread(lambda: self.folder)

    def subtask_attempt(self) -> SubtaskAttempt:
        from airflow_abs.spark.run.subtask import SubtaskAttempt

        return SubtaskAttempt(self.region, self.subtask["index"], self.attempt, self.subtask["decision"])

    @property
    def spark_hook(self) -> AdaptiveSparkHook:
        from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook

        return AdaptiveSparkHook(self.conn_id, self.folder if self.ephemeral else None)

    def get_endpoint(self) -> ConnectEndpoint | None:
        """For workers, before any clock runs; None if there is nothing to do on Spark."""
        return None if "fused_into" in self.subtask else self.spark_hook.get_endpoint()

    async def aget_endpoint(self) -> ConnectEndpoint:
        hook = await asyncio.to_thread(lambda: self.spark_hook)  # see `aopen_folder`
        return await hook.aget_endpoint()

    async def run(self, endpoint: ConnectEndpoint | None = None) -> dict[str, Any]:
        """Run it to its end and return what is pushed as XCom; cancelling leaves the Spark operation running.

        Without `endpoint` it asks Airflow for the connection, which must not be cancelled in a worker.
        """
        if into := self.subtask.get("fused_into"):
            log.info("nothing to do: %s runs inside %s today", self.region, into)
            return {"index": 0, "subtasks": 1, "decision": "", "fused_into": into, "results": {}}
        from airflow_abs.exchange.records.reports import report
        from airflow_abs.execution.spans import describe_committed, subtask_span
        from airflow_abs.spark.connect.connection import open_connection
        from airflow_abs.spark.run.progress import ProgressLog, describe_outcome
        from airflow_abs.spark.run.subtask import run_subtask

        began = self.began or time.time()
        waited = max(0.0, began - self.subtask.get("ready", began))
        progress = ProgressLog(_PROGRESS_SECONDS, self.stall_after)
        endpoint = endpoint or await self.aget_endpoint()
        with subtask_span(self, began) as span:
            folder = await self.aopen_folder()
            async with progress.watched(), open_connection(endpoint) as connection:
                spent = time.time() - began if self.began else 0.0
                manifest = await run_subtask(
                    connection,
                    folder,
                    self.subtask_attempt(),
                    open_path,
                    on_progress=progress,
                    waited=waited,
                    spent=max(0.0, spent),
                )
            describe_committed(span, manifest)
        log.info("%s", describe_outcome(manifest))
        return report(manifest, self.subtask["subtasks"])

    async def interrupt(self, endpoint: ConnectEndpoint | None = None) -> None:
        """Stop this try's Spark operations; those that are not running are left alone."""
        from airflow_abs.spark.connect.connection import open_connection
        from airflow_abs.spark.run.subtask import interrupt_subtask

        async with open_connection(endpoint or await self.aget_endpoint()) as connection:
            await interrupt_subtask(connection, await self.aopen_folder(), self.subtask_attempt())


@dataclass(frozen=True, slots=True)
class AwaitedSubtask:
    """A subtask that the triggerer awaits, wherever it was begun.

    Args:
        run: it.
        deadline: epoch seconds, past which Spark is interrupted; None for none.
    """

    run: SubtaskRun
    deadline: float | None = None

    async def end(self) -> TriggerEvent:
        """The event that ends its task, or lets a worker raise the error."""
        from airflow_abs.exchange.errors import ExchangeError
        from airflow_abs.spark.errors import SparkOperationError

        run = self.run
        try:
            result = await keep_message(self._run_while_others_do())
        except (SparkOperationError, ExchangeError) as error:
            log.error("%s", error)  # noqa: TRY400 - the worker raises it, with its trace
            return run.failed(error)
        task = {"dag_id": run.dag_id, "run_id": run.run_id, "task_id": run.task_id, "map_index": run.map_index}
        return await succeed(task, run.region, result)

    async def _run_while_others_do(self) -> dict[str, Any]:
        """Stay while another process has the operation: to leave without an event would fail the task, which may be
        the other's by now. A trigger that was given to another triggerer is cancelled from outside."""
        from airflow_abs.spark.errors import OperationTakenOverError

        while True:
            try:
                return await self._run_in_time()
            except OperationTakenOverError:
                log.info("another process awaits this Spark operation now; looking again in %g s", _AWAY_SECONDS)
                await asyncio.sleep(_AWAY_SECONDS)

    async def _run_in_time(self) -> dict[str, Any]:
        """Until the deadline; past it Spark is interrupted, not only left alone."""
        from airflow_abs.spark.errors import OperationTimeoutError

        try:
            left = None if self.deadline is None else self.deadline - time.time()
            return await run_within(left, self.run.run())
        except TimeIsUpError:
            await self.run.interrupt()
            raise OperationTimeoutError(
                f"{self.run.region}[{self.run.map_index}] ran longer than its execution_timeout and was interrupted; "
                "raise the limit, or lower the target bytes per subtask"
            ) from None
