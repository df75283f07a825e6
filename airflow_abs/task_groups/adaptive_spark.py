"""`AdaptiveSparkJob`: collects declared vertices and renders them as Airflow tasks when it closes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from airflow.sdk import TaskGroup

from airflow_abs.core.decide.region_inputs import Strategy
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.settings import Durability
from airflow_abs.exchange.py_files import check_py_files
from airflow_abs.hooks.ephemeral import Ephemeral
from airflow_abs.operators.adaptive_spark import OPEN_JOB, AdaptiveSparkOperator
from airflow_abs.restart_strategy import RestartStrategy, check_strategy
from airflow_abs.settings import read_exchange, read_job_settings
from airflow_abs.task_groups.rendering import render_job


class AdaptiveSparkJob(TaskGroup):
    """A graph of PySpark steps whose fan-out is decided at run time.

    Vertices are declared inside it with `AdaptiveSparkOperator`. When it closes, the graph is checked and every
    pipelined region becomes a `decide` and a mapped `run` task (and a `commit`, if it has a sink). Arguments left out
    are read from Airflow's section ``[adaptive_spark]``.

    Args:
        group_id: id of the task group, and the job's name.
        conn_id: Airflow connection of type ``spark_connect``; without a host it means an embedded server.
        spark: `Ephemeral(...)` starts a Spark Connect server for each run, as an application of a cluster, and ends it
            with the run; of the connection `conn_id` only user and password are used then.
        exchange: templated URI of shared storage for the data between regions.
        target_bytes: bytes that one subtask should read, such as ``"256MB"``; left out, 128 MB, or more where that
            saves waves of subtasks.
        min_parallelism: minimum number of subtasks of a vertex.
        max_parallelism: maximum number of subtasks of every vertex without a bound of its own.
        default_source_parallelism: upper bound of sources; by default `max_parallelism`.
        strategy: ``balanced`` (any number, ranges of about equal bytes) or ``power_of_two`` (Flink 1.15's rule).
        slots: how many Spark tasks run at once; by default as the server reports.
        durability: ``auto`` writes an edge on the days on which that pays and keeps it inside Spark on all others;
            ``always`` writes every edge.
        share_tasks: with ``always``: steps that are predicted to read no more than one subtask each run in one task,
            one after the other; every edge is still a file, and a try resumes after what is already written.
        failures_per_run, failures_per_day: what ``auto`` assumes before it has seen runs: failures of data or code
            in a run, failures of machines in 24 hours of Spark's work.
        local_bytes: memory and local disks of the cluster that ``auto`` lets one Spark operation use, such as
            ``"100GB"``; by default 16 GB for each slot.
        restart_strategy: when a failed subtask is restarted, such as `FixedDelayRestart(3, 10.0)` of
            `airflow_abs.restart_strategy`; by default after growing delays. `retries` of a vertex caps it.
        deferrable: hand a subtask over to the triggerer when it runs longer than `defer_after`, and immediately if its
            fan-out exceeds the slots and no pool is set.
        defer_after: seconds that a worker awaits a subtask before that.
        start_from_trigger: run subtasks in the triggerer from their start: no worker process, and as many at once as
            there are slots, instead of Airflow's pools.
        resource_timeout: seconds that a subtask in the triggerer waits for a cluster without any slot; negative:
            without end.
        resource_stabilization: seconds that a run waits there for the slots that it was planned for, before it goes on
            with fewer.
        stall_after: seconds without any progress on Spark after which the log of a subtask warns.
        hot_keys: look for the key behind a hot subpartition: its value is told in the log, by ``explain`` and on the
            page, and kept in the exchange.
        inference_timeout: seconds that the tables which a vertex reads have to say how much there is to read, when its
            subtasks are decided.
        spark_conf: Spark's session settings in `plan` and in all subtasks, such as
            ``{"spark.sql.ansi.enabled": False}``.
        py_files: Python code that functions of transforms import on Spark: .py, .zip and .whl files by path, if that is
            relative below the DAG file's folder. Every Spark session of a run is sent what `plan` found there.
        group: further arguments of `TaskGroup`, such as `default_args`.

    Raises:
        JobGraphError: when it closes; names the vertex, what was found and what to do.
        InvalidValueError: a setting is outside what it may be.
    """

    def __init__(  # noqa: PLR0913 - the options of a job, each with a default in the configuration
        self,
        group_id: str,
        *,
        conn_id: str = "spark_connect_default",
        spark: Ephemeral | None = None,
        exchange: str | None = None,
        target_bytes: int | str | None = None,
        min_parallelism: int | None = None,
        max_parallelism: int | None = None,
        default_source_parallelism: int | None = None,
        strategy: Strategy | None = None,
        slots: int | None = None,
        durability: Durability | None = None,
        share_tasks: bool | None = None,
        failures_per_run: float | None = None,
        failures_per_day: float | None = None,
        local_bytes: int | str | None = None,
        deferrable: bool | None = None,
        defer_after: float | None = None,
        start_from_trigger: bool | None = None,
        resource_timeout: float | None = None,
        resource_stabilization: float | None = None,
        stall_after: float | None = None,
        hot_keys: bool | None = None,
        inference_timeout: float | None = None,
        restart_strategy: RestartStrategy | None = None,
        spark_conf: Mapping[str, Any] | None = None,
        py_files: Sequence[str] = (),
        **group: Any,
    ) -> None:
        super().__init__(group_id=group_id, **group)
        self._conn_id = conn_id
        self._server = _check_spark(spark)
        check_py_files(group_id, py_files)
        self._restart_strategy = check_strategy(restart_strategy)
        self._exchange = read_exchange(exchange)
        self._settings = read_job_settings(
            {
                "target_bytes": target_bytes,
                "min_parallelism": min_parallelism,
                "max_parallelism": max_parallelism,
                "default_source_parallelism": default_source_parallelism,
                "strategy": strategy,
                "slots": slots,
                "durability": durability,
                "share_tasks": share_tasks,
                "failures_per_run": failures_per_run,
                "failures_per_day": failures_per_day,
                "local_bytes": local_bytes,
                "deferrable": deferrable,
                "defer_after": defer_after,
                "start_from_trigger": start_from_trigger,
                "resource_timeout": resource_timeout,
                "resource_stabilization": resource_stabilization,
                "stall_after": stall_after,
                "hot_keys": hot_keys,
                "inference_timeout": inference_timeout,
                "spark_conf": spark_conf,
                "py_files": py_files,
            }
        )
        self._vertices: list[AdaptiveSparkOperator] = []

    def __enter__(self) -> Self:
        if OPEN_JOB.get() is not None:
            raise JobGraphError(f"job {self.group_id!r}: declared inside another job; close that one first")
        super().__enter__()
        OPEN_JOB.set(self._vertices)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        OPEN_JOB.set(None)
        try:
            if kind is None:
                render_job(
                    self,
                    self._settings,
                    self._exchange,
                    self._conn_id,
                    self._vertices,
                    self._restart_strategy,
                    self._server,
                )
        finally:  # Airflow's own stack of open groups has to be left in order, also after a mistake
            super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]


def _check_spark(spark: object) -> Ephemeral | None:
    if spark is None or isinstance(spark, Ephemeral):
        return spark
    raise InvalidValueError(
        f"spark is {spark!r}; expected Ephemeral(...) for a Spark server per run, or None for the one that conn_id "
        "names"
    )
