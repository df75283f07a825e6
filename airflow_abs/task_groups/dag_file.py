"""The jobs that a DAG file declares, read without a scheduler and without running anything."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph


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
    from airflow.dag_processing.dagbag import DagBag

    from airflow_abs.operators.plan import PlanOperator

    bag = DagBag(dag_folder=str(path), safe_mode=False, load_op_links=False)
    if bag.import_errors:
        raise JobGraphError(
            "\n".join(f"{name} cannot be imported:\n{trace}" for name, trace in bag.import_errors.items())
        )
    jobs = [
        DeclaredJob(dag.dag_id, task.job, task.graph)
        for dag in bag.dags.values()
        for task in dag.tasks
        if isinstance(task, PlanOperator)
    ]
    if not jobs:
        raise JobGraphError(
            f"{path}: no AdaptiveSparkJob is declared there (DAGs found: {', '.join(bag.dags) or 'none'})"
        )
    return sorted(jobs, key=lambda job: (job.dag_id, job.job))
