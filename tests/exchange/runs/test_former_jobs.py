"""A job that gets another name is the same job to the runs that it has published in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.declared_vertex import DeclaredVertex
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.runs.former_jobs import find_former_jobs
from airflow_abs.exchange.storage.whole_files import write_json

SALES, RETURNS = {"load": "1234", "total": "abcd"}, {"load": "1234", "total": "beef"}


def plan(root: Path, job: str, declared: Mapping[str, str], former: tuple[str, ...] = (), run: str = "monday") -> None:
    vertices = tuple(DeclaredVertex(name, declaration=each) for name, each in declared.items())
    made = JobPlan("id", (), JobSettings(), None, "4.2.0", vertices=vertices, former_jobs=former)
    write_json(JobFolder(root, "dag", run, job).plan_path, made.to_json())


def test_a_job_that_is_new_in_a_run_follows_the_one_that_declared_the_same(tmp_path: Path) -> None:
    plan(tmp_path, "returns", RETURNS)
    plan(tmp_path, "an/old name", SALES)
    plan(tmp_path, "gone", SALES, run="tuesday")
    new = JobFolder(tmp_path, "dag", "monday", "new")
    jobs = {"returns": RETURNS, "new": SALES}
    assert find_former_jobs(new, jobs) == ("an/old name",)
    plan(tmp_path, "newer", SALES, ("an/old name",))
    assert find_former_jobs(new, jobs) == ("an/old name", "newer")
    assert find_former_jobs(replace(new, job="returns"), jobs) == ()  # it was there beside them


def test_what_was_made_otherwise_or_stays_is_no_former_job(tmp_path: Path) -> None:
    new = JobFolder(tmp_path, "dag", "monday", "new")
    assert find_former_jobs(new, {"new": SALES}) == ()  # the first plan of a run
    plan(tmp_path, "kept", SALES)
    plan(tmp_path, "removed", RETURNS)
    assert find_former_jobs(new, {"new": {**SALES, "total": "0000"}}) == ()
    (tmp_path / "dag/monday/removed/plan.json").write_text("{")
    assert find_former_jobs(new, {"new": RETURNS}) == ()


def test_of_several_jobs_that_declare_the_same_nobody_knows_which_was_renamed(tmp_path: Path) -> None:
    """One job for each customer, told apart by what their functions hold: the rows of those who left stay."""
    new = JobFolder(tmp_path, "dag", "monday", "new")
    plan(tmp_path, "left", SALES)
    assert find_former_jobs(new, {"new": SALES, "another": SALES}) == ()
    plan(tmp_path, "left too", SALES)
    assert find_former_jobs(new, {"new": SALES}) == ()
