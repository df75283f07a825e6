"""A job that gets another name is the same job to the runs that it has published in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.former_jobs import find_former_jobs
from airflow_abs.exchange.storage.whole_files import write_json


def plan(root: Path, job: str, run: str = "monday") -> JobFolder:
    folder = JobFolder(root, "dag", run, job)
    write_json(folder.plan_path, {})
    return folder


def test_a_new_job_follows_those_that_the_dag_has_no_more(tmp_path: Path) -> None:
    kept = plan(tmp_path, "kept")
    for job in ("old", "another/old one"):
        plan(tmp_path, job)
    plan(tmp_path, "gone", "tuesday")
    new = replace(kept, job="new")
    assert find_former_jobs(new, {"kept", "new"}) == ("another/old one", "old")
    assert find_former_jobs(kept, {"kept", "new"}) == ()  # it was there beside them


def test_the_first_plan_of_a_run_follows_none(tmp_path: Path) -> None:
    assert find_former_jobs(JobFolder(tmp_path, "dag", "monday", "job"), {"job"}) == ()
    plan(tmp_path, "other")
    assert find_former_jobs(JobFolder(tmp_path, "dag", "monday", "job"), {"job", "other"}) == ()
