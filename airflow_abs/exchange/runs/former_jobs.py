"""What the jobs of a run were called before its DAG file gave them other names."""

from __future__ import annotations

from collections.abc import Collection

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.run_list import list_runs


def find_former_jobs(folder: JobFolder, jobs: Collection[str]) -> tuple[str, ...]:
    """Jobs that the run was planned with and that its DAG has no more: a job that is new in this run publishes in their
    place, or rows that were appended would be there twice.

    Args:
        folder: of the job that is planned now; of one that the run has already, nothing is looked for.
        jobs: the names of all that the DAG has now.

    Raises:
        ExchangeUnreachableError: the storage cannot be listed.
    """
    planned = {held.folder.job for held in list_runs(folder.root, folder.dag_id, folder.run_id)}
    return () if folder.job in planned else tuple(sorted(planned - set(jobs)))
