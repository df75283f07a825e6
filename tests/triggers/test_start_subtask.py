"""What a trigger that starts a subtask finds out before it runs."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.tries import TryRecord, read_try, write_try
from airflow_abs.execution import slots
from airflow_abs.execution.slots import ClusterSlots
from airflow_abs.execution.subtask import AwaitedSubtask
from airflow_abs.spark.errors import ResourcesError
from airflow_abs.triggers.start_subtask import StartSubtaskTrigger
from tests.execution.conftest import Supervisor
from tests.recorded_runs import MadeRegion, RecordedRun

START: dict[str, Any] = {
    "conn_id": "spark",
    "exchange": "file:///x",
    "job": "job",
    "ephemeral": False,
    "deferred": False,
    "region": "orders",
    "slots": 2,
    "resource_timeout": 300.0,
    "resource_stabilization": 10.0,
    "stall_after": 600.0,
    "execution_timeout": None,
}


class FixedSlots:
    """A cluster with as many slots as the job says; else with none."""

    def __init__(self, conn_id: str, fixed: int | None) -> None:
        self.found = ClusterSlots(fixed or 0)

    async def read(self, demand: int) -> ClusterSlots:
        return self.found

    async def leave(self) -> None:
        pass


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor) -> None:
    monkeypatch.setattr(slots, "_TAKEOVER_SECONDS", 0.0)
    monkeypatch.setattr(slots, "_ServerSlots", FixedSlots)


@pytest.fixture
def recorded(tmp_path: Path) -> RecordedRun:
    """Three subtasks, planned for two slots."""
    files = [1000, 1000, 1000]
    run = RecordedRun(JobFolder(tmp_path, "dag", "run", "job"), [MadeRegion("orders", files)], lambda *_: 1)
    run.write_plan()
    assert isinstance(run.decide("orders"), RegionDecision)
    return run


def test_its_arguments_are_json_and_make_the_same_trigger_again() -> None:
    path, values = StartSubtaskTrigger(**START).serialize()
    assert path == "airflow_abs.triggers.start_subtask.StartSubtaskTrigger"
    assert json.loads(json.dumps(values)) == values == START


def task_instance(index: int) -> Any:
    return SimpleNamespace(
        dag_id="dag", run_id="run", task_id="job.orders.run", map_index=index, try_number=1, task=None
    )


def started(recorded: RecordedRun, **values: Any) -> StartSubtaskTrigger:
    trigger = StartSubtaskTrigger(**{**START, "exchange": str(recorded.folder.root), **values})
    trigger.task_instance = task_instance(1)
    return trigger


async def events(trigger: StartSubtaskTrigger) -> list[Any]:
    return [event async for event in trigger.run()]


def test_with_a_slot_it_runs_the_subtask_to_its_end(recorded: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[AwaitedSubtask] = []

    async def end(self: AwaitedSubtask) -> Any:
        ran.append(self)
        return TaskSuccessEvent()

    monkeypatch.setattr(AwaitedSubtask, "end", end)
    assert [type(each) for each in asyncio.run(events(started(recorded)))] == [TaskSuccessEvent]
    assert [(each.run.map_index, each.run.subtask["index"], each.deadline) for each in ran] == [(1, 1, None)]
    assert ran[0].run.began >= ran[0].run.subtask["ready"]


def test_a_subtask_taken_over_counts_from_its_start_and_has_what_is_left_of_its_execution_timeout(
    recorded: RecordedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[AwaitedSubtask] = []

    async def end(self: AwaitedSubtask) -> Any:
        ran.append(self)
        return TaskSuccessEvent()

    monkeypatch.setattr(AwaitedSubtask, "end", end)
    record = TryRecord(1, recorded.stored["orders"].digest, 1, "", "running", "", 5000.0)
    write_try(recorded.folder, "orders", 1, record)
    asyncio.run(events(started(recorded, execution_timeout=60.0)))
    assert [(each.run.began, each.deadline) for each in ran] == [(5000.0, 5060.0)]


def test_without_a_slot_a_worker_is_woken_to_raise_the_error(recorded: RecordedRun) -> None:
    (event,) = asyncio.run(events(started(recorded, slots=None, resource_timeout=0.0)))
    assert event.payload["error"]["spark"]["type"] == ResourcesError.__name__
    record = read_try(recorded.folder, "orders", 1, 1)
    assert record is not None
    assert record.state == "failed"


@pytest.mark.parametrize(("deferred", "least"), [(False, 0.0), (True, 0.3)])
def test_a_worker_that_deferred_it_is_not_woken_before_its_deferral_is_known(
    recorded: RecordedRun, monkeypatch: pytest.MonkeyPatch, deferred: bool, least: float
) -> None:
    monkeypatch.setattr("airflow_abs.execution.task_end._SETTLED_SECONDS", 0.3)
    started_at = time.monotonic()
    (event,) = asyncio.run(events(started(recorded, slots=None, resource_timeout=0.0, deferred=deferred)))
    assert "error" in event.payload
    assert time.monotonic() - started_at >= least
