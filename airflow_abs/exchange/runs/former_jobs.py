"""What a job of a run was called before its DAG file gave it another name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from airflow_abs.exchange.errors import StoredFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import JobPlan, read_plan
from airflow_abs.exchange.runs.run_list import list_runs

Declarations = Mapping[str, str]
"""Of the vertices of a job, by name, see `digest_declaration`."""


def find_former_jobs(folder: JobFolder, jobs: Mapping[str, Declarations]) -> tuple[str, ...]:
    """The names that a job had in earlier plans of the run: it publishes in their place, or rows that were appended
    would be there twice.

    A job that is new in the run follows one that its DAG has no more if both declare the same, and no other job does:
    several that are alike cannot be told apart.

    Args:
        folder: of the job that is planned now; of one that the run has already, nothing is looked for.
        jobs: all that the DAG has now, by name.

    Raises:
        ExchangeUnreachableError: the storage cannot be listed.
    """
    planned = {held.folder.job for held in list_runs(folder.root, folder.dag_id, folder.run_id)}
    own = jobs[folder.job]
    if folder.job in planned or any(each == own for job, each in jobs.items() if job != folder.job):
        return ()
    alike = {}
    for job in sorted(planned - jobs.keys()):
        try:
            plan = read_plan(replace(folder, job=job))
        except StoredFileError:
            continue
        if _declarations_of(plan) == own:
            alike[job] = plan
    older = {job for plan in alike.values() for job in plan.former_jobs}
    return tuple(alike) if len(alike.keys() - older) == 1 else ()


def _declarations_of(plan: JobPlan) -> Declarations:
    return {vertex.name: vertex.declaration for vertex in plan.vertices}
