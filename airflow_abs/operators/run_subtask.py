"""One subtask: a mapped task instance that has one Spark Connect operation at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_abs.airflow_abilities import AirflowFailException
from airflow_abs.core.graph.job_graph import Region
from airflow_abs.execution.dag_test import is_dag_test
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.execution.task_end import error_from_json
from airflow_abs.execution.time_limit import TimeIsUpError, run_within
from airflow_abs.operators.job_task import JobTask
from airflow_abs.triggers.subtask import SubtaskTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


_INTERRUPT_SECONDS = 30.0
_DEADLINE_GRACE_SECONDS = 60.0


class RunSubtaskOperator(JobTask):
    """Runs the subtask that `decide` described, first in this worker and, if it is long, in the triggerer.

    The worker awaits the Spark operation for `defer_after` seconds; then the trigger sends the identical request, which
    attaches to the running operation, and ends the task itself. With `deferrable=False`, and in `airflow dags test`,
    the worker awaits the end. A subtask that is `queued` goes to the triggerer at once, waits for a slot there, and is
    sent to Spark from there.

    Args:
        region: name of the region.
        subtask: what `decide` returned for this map index.
        deferrable, defer_after: see above; seconds.
        stall_after: seconds without progress after which the log warns.
        slot_options: keyword arguments of `StartSubtaskTrigger` for waiting.
        declarations: as in `JobPlan.check_declared`.
    """

    ui_color = "#e6f4ea"

    def __init__(
        self,
        *,
        region: str,
        subtask: dict[str, Any],
        deferrable: bool,
        defer_after: float,
        stall_after: float,
        slot_options: Mapping[str, Any],
        declarations: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.region = region
        self.subtask = subtask
        self.deferrable = deferrable
        self.defer_after = defer_after
        self.stall_after = stall_after
        self.slot_options = slot_options
        self.declarations = dict(declarations or {})
        self._run: SubtaskRun | None = None
        self._endpoint: ConnectEndpoint | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_abs.exchange.errors import ExchangeError
        from airflow_abs.spark.errors import SparkOperationError

        stays = is_dag_test()
        if self.subtask.get("queued") and not stays:
            self._defer_to_queue()
        self._run = self._describe(context)
        limit = self.defer_after if self.deferrable and not stays else None
        try:
            # Not in the event loop: a client of Airflow that is cancelled may keep its lock, and the task would hang.
            self._endpoint = self._run.get_endpoint()
            return asyncio.run(run_within(limit, self._run.run(self._endpoint)))
        except (SparkOperationError, ExchangeError) as error:
            self._raise(error, self._run)
        except TimeIsUpError:
            self.log.info("not done after %g s: the triggerer takes over", self.defer_after)
            self._defer(self._run)

    def _defer(self, run: SubtaskRun) -> NoReturn:
        left = self._seconds_left()
        self.defer(
            trigger=SubtaskTrigger(**run.to_json(), deadline=None if left is None else time.time() + left),
            method_name="execute_complete",
            # Airflow's own timeout would leave Spark running: it is only for a trigger that does not keep its deadline.
            timeout=None if left is None else timedelta(seconds=left + _DEADLINE_GRACE_SECONDS),
        )

    def _defer_to_queue(self) -> NoReturn:
        """No timeout of Airflow's: the time without a slot is not the subtask's."""
        from airflow_abs.triggers.start_subtask import StartSubtaskTrigger

        limit = self.execution_timeout
        trigger = StartSubtaskTrigger(
            conn_id=self.conn_id,
            exchange=self.exchange,
            job=self.job,
            region=self.region,
            stall_after=self.stall_after,
            execution_timeout=None if limit is None else limit.total_seconds(),
            ephemeral=self.ephemeral,
            deferred=True,
            **self.slot_options,
        )
        self.log.info("its fan-out exceeds the slots of Spark: waiting for one in the triggerer")
        self.defer(trigger=trigger, method_name="execute_complete")

    def execute_complete(self, context: Context, event: dict[str, Any]) -> NoReturn:
        """A trigger ends a successful task itself; a worker is woken only to raise what went wrong.

        On SQLite a trigger of an earlier try, of this subtask or of another, that was cleared while it ran can have
        the number of this one's.
        """
        run = self._describe(context)
        if event.get("of", run.name) != run.name:
            self.log.info("%s ended; this is %s, which continues", event["of"], run.name)
            if self.subtask.get("queued"):
                self._defer_to_queue()
            self._defer(run)
        self._raise(error_from_json(event["error"]), run)

    def _raise(self, error: Exception, run: SubtaskRun) -> NoReturn:
        """What would happen again fails the task at once, also under an author's own retry policy."""
        from airflow_abs.spark.errors import UserCodeError

        for cause in getattr(error, "causes", ())[1:]:
            self.log.error("caused by %s: %s", cause.error_class or "an error", cause.message)
        if getattr(error, "restartable", True):
            raise error
        hint = self._describe_planned(run) if isinstance(error, UserCodeError) else ""
        raise AirflowFailException(f"{error}{hint}") from error

    def _describe_planned(self, run: SubtaskRun) -> str:
        """A subtask runs its step as `plan` compiled it: clearing the subtask alone repeats the mistake."""
        from airflow_abs.exchange.errors import ExchangeError
        from airflow_abs.exchange.records.run_records import RunRecords

        try:
            changed = RunRecords(run.folder).plan.changed_since(self.declarations)
        except ExchangeError:  # the mistake is what counts
            changed = ()
        found = f"The DAG file has changed since ({', '.join(changed)}): clear" if changed else "To run a fix, clear"
        return f"\nThis subtask ran the step as it was planned. {found} plan as well, and everything after it"

    def on_kill(self) -> None:
        """Stop Spark too. The signal arrives inside the event loop of `execute`, so this takes a thread and a loop."""
        if self._run is not None and self._endpoint is not None:
            with ThreadPoolExecutor(1, thread_name_prefix="interrupt") as pool:
                pool.submit(asyncio.run, self._run.interrupt(self._endpoint)).result(timeout=_INTERRUPT_SECONDS)

    def _describe(self, context: Context) -> SubtaskRun:
        return SubtaskRun.of(context["ti"], self, self.subtask, began=time.time())

    def _seconds_left(self) -> float | None:
        """The triggerer does not know `execution_timeout`; what the worker used of it is gone."""
        if self.execution_timeout is None:
            return None
        return max(self.execution_timeout.total_seconds() - self.defer_after, 1.0)


def describe_region(region: Region) -> str:
    """Documentation of the mapped task in the UI."""
    inputs = "\n".join(f"* {edge}" for edge in region.inputs) or "* files, with a parallelism inferred from their bytes"
    vertices = " → ".join(region.vertices)
    if region.single_subtask_reason:
        count = f"One subtask: {region.single_subtask_reason}."
    elif region.parallelism is not None:
        count = f"{region.parallelism} subtasks, set by the author."
    else:
        count = f"Between 1 and {region.subpartitions} subtasks, decided on the day."
    return (
        f"Subtasks of **{vertices}**, each one range of its inputs. {count}\n\n{inputs}\n\n"
        "Each mapped task instance is one subtask; its label says its range and bytes. All of them, with their bytes "
        "and states, are on the run's tab *Adaptive plan*."
    )
