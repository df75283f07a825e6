"""The jobs and streams that a DAG file declares, read without a scheduler and without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph

if TYPE_CHECKING:
    from airflow.sdk import DAG

    from airflow_abs.operators.streams.adaptive_spark_stream import AdaptiveSparkStream


@dataclass(frozen=True, slots=True)
class DeclaredJob:
    """One `AdaptiveSparkJob` of a DAG."""

    dag_id: str
    job: str
    graph: JobGraph


def read_dag_file(path: Path) -> list[DeclaredJob]:
    """Import a DAG file as Airflow does, and return its jobs in the order of their names.

    Raises:
        JobGraphError: the file cannot be imported (with its trace), or declares no job.
    """
    from airflow_abs.operators.plan import PlanOperator

    dags = _import(path)
    jobs = [
        DeclaredJob(dag_id, task.job, task.graph)
        for dag_id, dag in dags.items()
        for task in dag.tasks
        if isinstance(task, PlanOperator)
    ]
    if not jobs:
        raise JobGraphError(f"{path}: no AdaptiveSparkJob is declared there (DAGs found: {', '.join(dags) or 'none'})")
    return sorted(jobs, key=lambda job: (job.dag_id, job.job))


def read_streams(path: Path) -> list[AdaptiveSparkStream]:
    """Import a DAG file as Airflow does, and return its streams, whose template fields are not rendered.

    Raises:
        JobGraphError: the file cannot be imported (with its trace).
    """
    from airflow_abs.operators.streams.adaptive_spark_stream import AdaptiveSparkStream

    return [task for dag in _import(path).values() for task in dag.tasks if isinstance(task, AdaptiveSparkStream)]


def _import(path: Path) -> Mapping[str, DAG]:
    from airflow_abs.airflow_abilities import DagBag

    bag = DagBag(dag_folder=str(path), safe_mode=False, load_op_links=False)
    if bag.import_errors:
        raise JobGraphError(
            "\n".join(f"{name} cannot be imported:\n{trace}" for name, trace in bag.import_errors.items())
        )
    return bag.dags
