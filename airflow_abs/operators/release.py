"""The end of a run: drop what only the run itself needed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import ExchangeError, MissingFileError
from airflow_abs.operators.job_task import JobTask, logical_date

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.exchange.runs.run_view import RunView
    from airflow_abs.hooks.ephemeral import Ephemeral

_DOCS = (
    "Ends the run's remaining operations on the Spark server, and deletes its exchange data if all tasks of the job "
    "succeeded; after a failure the data stays, so that a cleared subtask finds its inputs. Plan, decisions and "
    "manifests always stay (a few KB): the tab *Adaptive plan*, `airflow-abs explain` and `replay` read them. "
    "`airflow-abs gc` deletes old ones. It adds the outcome of the run to the job's history, from which the next runs "
    "are predicted."
)

_DONE = frozenset({"success", "removed", "skipped"})
"""A map index that a later decision does not have any more is `removed`, and a region that ran inside another one
`skipped`: they owe nothing."""


class ReleaseOperator(JobTask):
    """Ends the run's Spark sessions; deletes its exchange data if every task of the job succeeded, else keeps it for
    retries and clears. The outcome of the run goes into the job's history, after failures too. Before that it looks for
    keys of hot subpartitions that no subtask had the time to find.

    Plans, decisions and manifests stay: they are small and explain the run.

    Args:
        task_ids: the other tasks of the job.
        server: how the job's own Spark servers are started, if it has such.
    """

    def __init__(self, *, task_ids: Sequence[str], server: Ephemeral | None = None, **kwargs: Any) -> None:
        super().__init__(**{"doc_md": _DOCS, **kwargs})
        self.task_ids = tuple(task_ids)
        self.server = server

    def execute(self, context: Context) -> dict[str, Any]:
        from airflow_abs.exchange.runs.cleaning import release_job

        run = self._tell_of_the_run(context)
        self._end_on_spark(run, context)
        if self.server is not None:
            self._stop_server(self.server, context)
        unfinished = self._not_succeeded(context)
        if unfinished:
            self.log.info("keeping the exchange data: not all tasks succeeded (%s)", ", ".join(sorted(unfinished)))
            return {"released_bytes": 0}
        folder = self.folder(context)
        released = release_job(folder)
        return {"released_bytes": released.bytes}

    def _stop_server(self, server: Ephemeral, context: Context) -> None:
        """What the teardown of the server was not given to do: Airflow leaves it out if the setup failed."""
        from airflow_abs.hooks.run_server import stop_server

        if ended := stop_server(server, self.folder(context)):
            self.log.info("ended Spark server %s", ended)

    def _end_on_spark(self, run: RunView | None, context: Context) -> None:
        """After failures too: nothing of an ended run may keep running in Spark."""
        from airflow_abs.spark.errors import SparkOperationError
        from airflow_abs.spark.hot_keys import find_unseen_hot_keys
        from airflow_abs.spark.run.attempt import release_sessions

        try:
            endpoint = self.spark_hook(context).find_endpoint()
            if endpoint is None:
                return
            if run is not None:
                asyncio.run(find_unseen_hot_keys(endpoint, run, context["ti"].try_number))
            ended = asyncio.run(release_sessions(endpoint, self.folder(context)))
            self.log.info("ended %s", format_count(ended, "Spark session"))
        except MissingFileError:
            self.log.info("nothing to stop on Spark: plan stored no plan")
        except (ExchangeError, SparkOperationError) as error:
            self.log.warning("could not end this run's Spark sessions: %s", error)

    def _tell_of_the_run(self, context: Context) -> RunView | None:
        """Metrics, and the job's history; before anything is deleted. A run that cannot be read is none of a release's
        problems."""
        from airflow_abs.exchange.records.job_history import remember_run
        from airflow_abs.exchange.runs.past_run import past_run
        from airflow_abs.exchange.runs.run_reading import read_run
        from airflow_abs.execution.metrics import emit_run
        from airflow_abs.spark.errors import would_happen_again

        try:
            run = read_run(self.folder(context))
            emit_run(run)
        except ExchangeError as error:
            self.log.info("no metrics of this run, and nothing for the job's history: %s", error)
            return None
        remember_run(run.folder, past_run(run, logical_date(context), time.time(), would_happen_again))
        return run

    def _not_succeeded(self, context: Context) -> set[str]:
        run = context["dag_run"]
        states = context["ti"].get_task_states(run.dag_id, task_ids=list(self.task_ids), run_ids=[run.run_id])
        return {task for task, state in states.get(run.run_id, {}).items() if state not in _DONE}
