"""The order of a run's plans, and as whom each of them publishes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.settings import JobSettings
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.records.plan import JobPlan, PlannedRegion, PlannedSink, number_plan
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.whole_files import read_json, write_json

NOW = 1_795_400_000.25


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, "dag", "monday", "job")


def plan_of(*vertices: str) -> JobPlan:
    sinks = tuple(PlannedSink(vertex, f"{vertex}.sink", Files(f"/mart/{vertex}")) for vertex in vertices)
    region = PlannedRegion("r", vertices, (), (), (), sinks, None, 1, None)
    return JobPlan("id", (region,), JobSettings(), None, "4.2.0", installation="prod")


def plan_next(folder: JobFolder, plan: JobPlan, now: float = NOW) -> JobPlan:
    numbered = number_plan(folder, plan, now)
    write_json(folder.plan_path, numbered.to_json())
    return numbered


def test_every_plan_of_a_run_has_a_higher_number_than_the_one_before_even_if_the_clock_went_back(
    folder: JobFolder,
) -> None:
    numbers = [plan_next(folder, plan_of("total"), now).generation for now in (NOW, NOW + 1, NOW + 1, NOW - 3600)]
    assert numbers == [1_795_400_000_250, 1_795_400_001_250, 1_795_400_001_251, 1_795_400_001_252]


def test_a_plan_comes_after_all_that_was_published_anew_under_the_one_before(folder: JobFolder) -> None:
    region = replace(plan_of("total").regions[0], deterministic=False)
    before = plan_next(folder, replace(plan_of("total"), regions=(region,)))
    assert plan_next(folder, plan_of("total"), NOW - 3600).generation >= before.generation + 1_000_000


def test_a_plan_of_a_run_whose_data_gc_has_deleted_is_still_the_later_one(folder: JobFolder, tmp_path: Path) -> None:
    before = plan_next(folder, plan_of("total"))
    (tmp_path / "dag" / "monday" / "job" / "plan.json").unlink()
    assert plan_next(folder, plan_of("total"), NOW + 60).generation > before.generation


@pytest.mark.parametrize("damage", ["", "{}", '{"id": "old", "regions": []'])
def test_a_plan_takes_the_place_of_a_damaged_one(folder: JobFolder, tmp_path: Path, damage: str) -> None:
    plan_next(folder, plan_of("total"))
    (tmp_path / "dag" / "monday" / "job" / "plan.json").write_text(damage)
    assert plan_next(folder, plan_of("total")).generation == int(NOW * 1000)


def test_a_plan_of_before_plans_were_numbered_comes_before_any(folder: JobFolder) -> None:
    payload = {name: value for name, value in plan_of("old").to_json().items() if name != "generation"}
    write_json(folder.plan_path, payload)
    assert "generation" not in read_json(folder.plan_path)
    found = plan_next(folder, plan_of("total"), now=0.0)
    assert (found.generation, found.former_sinks) == (1, ("old",))


def test_a_run_publishes_as_itself_whatever_its_vertices_are_called(folder: JobFolder) -> None:
    plan_next(folder, plan_of("old", "kept"))
    plan = plan_next(folder, plan_of("new", "kept"))
    plan = plan_next(folder, replace(plan, former_sinks=()))
    assert plan.publisher(folder, "new") == Publisher(
        "prod:dag/monday/job", plan.generation, "dag/monday/job", ("new", "old")
    )
    assert plan.publisher(folder, "new").identities == (
        "prod:dag/monday/job",
        "dag/monday/job/new",
        "dag/monday/job/old",
    )


def test_a_run_publishes_in_the_place_of_a_job_that_was_renamed(folder: JobFolder) -> None:
    plan_next(folder, replace(plan_of("total"), former_jobs=("older", "old")))
    plan = plan_next(folder, plan_of("total"))
    publisher = plan.publisher(folder, "total")
    assert publisher.former == ("prod:dag/monday/older", "prod:dag/monday/old")
    assert publisher.identities[:3] == ("prod:dag/monday/job", *publisher.former)
    assert publisher.owns("prod:dag/monday/old")
    assert not publisher.owns("prod:dag/monday/other")


def test_a_plan_that_names_no_installation_publishes_as_it_did(folder: JobFolder) -> None:
    plan = replace(plan_of("total"), installation=None)
    assert plan.publisher(folder, "total").identity == "dag/monday/job/total"


def test_a_plan_that_holds_facts_of_its_run_among_its_options_is_read() -> None:
    payload = plan_of().to_json()
    for name in ("data_interval", "installation"):
        del payload[name]
    payload["options"] |= {"data_interval": ["2026-01-01", "2026-01-02"], "installation": "prod", "fuse_below": 0}
    del payload["options"]["inference_timeout"]
    plan = JobPlan.from_json(payload, where="plan.json")
    assert (plan.data_interval, plan.installation) == (("2026-01-01", "2026-01-02"), "prod")
    assert plan.options == JobSettings()


@pytest.mark.parametrize(
    ("identity", "is_own"),
    [
        ("prod:dag/monday/job", True),
        ("dag/monday/job/whatever", True),
        ("other:dag/monday/job", False),
        ("dag/monday/job 2/total", False),
        ("dag/tuesday/job/total", False),
        ("", False),
    ],
)
def test_what_is_ones_own(folder: JobFolder, identity: str, is_own: bool) -> None:
    assert plan_of("total").publisher(folder, "total").owns(identity) is is_own
