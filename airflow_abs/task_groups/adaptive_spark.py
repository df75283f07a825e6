"""`AdaptiveSparkJob`: collects declared vertices and renders them as Airflow tasks when it closes."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from airflow.sdk import TaskGroup

from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.settings import Durability, JobOptions, check_options, settings_of
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
        conn_id: Airflow connection of type ``spark_connect`` (without a host: an embedded server) or ``databricks``.
        spark: `Ephemeral(...)` starts a Spark Connect server for each run, as an application of a cluster, and ends it
            with the run; it uses only user and password of the connection `conn_id`.
        exchange: templated URI of shared storage for the data between regions.
        target_bytes: bytes that one subtask should read, such as ``"256MB"``; default: 128 MB, or more where that saves
            waves of subtasks.
        max_parallelism: maximum number of subtasks of a vertex that does not set its own.
        durability: ``auto`` writes an edge on days when that pays and otherwise keeps it inside Spark;
            ``always`` writes every edge except inside chains (see the setting `chaining`).
        restart_strategy: when a failed subtask restarts, such as `FixedDelayRestart(3, 10.0)` of
            `airflow_abs.restart_strategy`; by default after growing delays. `retries` of a vertex caps it.
        options: settings that few jobs need, such as ``JobOptions(slots=16)``.
        group: further arguments of `TaskGroup`, such as `default_args`.

    Raises:
        JobGraphError: when the block closes; names the vertex, what was found and what to do.
        InvalidValueError: a setting is invalid.
    """

    def __init__(  # noqa: PLR0913 - the options of a job, each with a default in the configuration
        self,
        group_id: str,
        *,
        conn_id: str = "spark_connect_default",
        spark: Ephemeral | None = None,
        exchange: str | None = None,
        target_bytes: int | str | None = None,
        max_parallelism: int | None = None,
        durability: Durability | None = None,
        restart_strategy: RestartStrategy | None = None,
        options: JobOptions | None = None,
        **group: Any,
    ) -> None:
        options = check_options(f"job {group_id!r}", options, JobOptions, group)
        super().__init__(group_id=group_id, **group)
        self._conn_id = conn_id
        self._server = _check_spark(spark)
        check_py_files(group_id, options.py_files)
        self._restart_strategy = check_strategy(restart_strategy)
        self._exchange = read_exchange(exchange)
        self._settings = read_job_settings(
            {name: getattr(options, name) for name, _ in settings_of(JobOptions)}
            | {"target_bytes": target_bytes, "max_parallelism": max_parallelism, "durability": durability}
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
