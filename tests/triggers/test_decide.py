"""A decision that is made in the triggerer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.execution.decide import describe_subtasks
from airflow_abs.operators.decide import DecideOperator
from airflow_abs.triggers.decide import DecideTrigger
from tests.recorded_runs import RecordedRun, revenue_run


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    made = revenue_run(tmp_path)
    made.run("orders", "customers")
    return made


def start(run: RecordedRun, region: str) -> TriggerEvent:
    trigger = DecideTrigger(exchange=str(run.folder.root), job=run.folder.job, region=region)
    place = {"dag_id": run.folder.dag_id, "run_id": run.folder.run_id, "task_id": f"{run.folder.job}.{region}.decide"}
    trigger._task_instance = SimpleNamespace(**place)  # type: ignore[assignment] # as the triggerer does

    async def first() -> TriggerEvent:
        return await anext(trigger.run())

    return asyncio.run(first())


def test_it_decides_from_the_manifests_and_pushes_what_the_subtasks_are_mapped_over(
    run: RecordedRun, pushed: dict[str, Any]
) -> None:
    assert isinstance(start(run, "enriched"), TaskSuccessEvent)
    stored = read_decision(run.folder, "enriched")
    value, place = pushed["return_value"]
    assert stored.decision == run.decide("enriched")
    assert [{k: v for k, v in each["subtask"].items() if k != "ready"} for each in value] == describe_subtasks(stored)
    assert place["_mapped_length"] == stored.decision.parallelism > 1
    assert (place["task_id"], place["map_index"]) == ("revenue.enriched.decide", -1)


def test_a_lost_manifest_reaches_a_worker_as_the_error_that_it_is(run: RecordedRun, pushed: dict[str, Any]) -> None:
    lost = run.folder.manifest_path("orders", 0)
    Path(str(lost)).unlink()
    event = start(run, "enriched")
    assert not pushed
    task = DecideOperator(task_id="decide", region="enriched", producers={}, exchange="/x", job="job", conn_id="c")
    with pytest.raises(MissingFileError, match=r"orders\[0\]: no manifest at .*: clear orders\[0\]") as caught:
        task.execute_complete({}, event.payload)  # type: ignore[typeddict-item]
    assert caught.value.path == str(lost)
