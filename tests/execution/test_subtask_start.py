"""Which subtask a task instance of the triggerer is, by the decision in the exchange."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.exchange.errors import StaleManifestError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.records.tries import TryRecord, read_try, write_try
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.execution.subtask_start import look_up, record_failure
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedRun:
    """Three subtasks, planned for two slots."""
    files = [1000, 1000, 1000]
    run = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), [MadeRegion("orders", files)], lambda *_: 1)
    run.write_plan()
    assert isinstance(run.decide("orders"), RegionDecision)
    return run


def described(recorded: RecordedRun, index: int = 1, attempt: int = 1) -> SubtaskRun:
    root = str(recorded.folder.root)
    return SubtaskRun(
        "spark", root, "dag", "run", "job", "job.orders.run", index, "orders", attempt, {"index": index}, 600.0
    )


def test_index_and_try_and_the_stored_decision_say_which_subtask_it_is(recorded: RecordedRun) -> None:
    start = look_up(described(recorded))
    stored = recorded.stored["orders"]
    expected = {"index": 1, "subtasks": 3, "decision": stored.digest, "ready": stored.measured_at}
    assert start.run.subtask == expected  # its wait counts from when it could have run, as if a worker had it
    assert (start.wanted, start.record, start.needs_no_slot) == (2, None, False)


@pytest.mark.parametrize(
    ("state", "decision", "needs_no_slot"),
    [("running", "", True), ("committed", "", True), ("failed", "", False), ("running", "other", False)],
)
def test_a_try_that_another_triggerer_began_keeps_its_slot(
    recorded: RecordedRun, state: Any, decision: str, needs_no_slot: bool
) -> None:
    digest = decision or recorded.stored["orders"].digest
    write_try(recorded.folder, "orders", 1, TryRecord(1, digest, 1, "", state, "", 5.0))
    assert look_up(described(recorded)).needs_no_slot is needs_no_slot


def test_a_region_that_runs_inside_another_one_today_needs_no_slot_and_no_spark(recorded: RecordedRun) -> None:
    write_json(recorded.folder.plan_path, JobPlan("id", (), OPTIONS, 2, "4.2.0", {"orders": "by_region"}).to_json())
    start = look_up(described(recorded, index=0))
    assert start.needs_no_slot
    assert asyncio.run(start.run.run())["fused_into"] == "by_region"


def test_an_index_that_the_decision_does_not_have_is_refused(recorded: RecordedRun) -> None:
    with pytest.raises(StaleManifestError, match="orders: the decision has 3 subtasks, and this is map index 3"):
        look_up(described(recorded, index=3))


def test_a_try_that_got_no_slot_counts_as_a_failure(recorded: RecordedRun) -> None:
    start = look_up(described(recorded, attempt=2))
    record_failure(start, "ResourcesError")
    record = read_try(recorded.folder, "orders", 1, 2)
    assert record is not None
    assert (record.number, record.state, record.error) == (2, "failed", "ResourcesError")
