"""A decision that is made in the triggerer."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_abs.core.slots.admission import Admission
from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.reports import read_reports
from airflow_abs.operators.decide import DecideOperator
from airflow_abs.triggers.decide import DecideTrigger, decide, describe_subtasks
from tests.recorded_runs import RecordedRun, revenue_run, skewed


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


def test_what_it_reads_is_what_a_worker_pulls(run: RecordedRun) -> None:
    reports = read_reports(run.folder, "orders")
    stored = run.stored["orders"]
    assert [each["index"] for each in reports] == list(range(stored.decision.parallelism))
    assert {(each["subtasks"], each["decision"]) for each in reports} == {(stored.decision.parallelism, stored.digest)}
    assert sum(map(sum, (each["results"]["orders.hash"]["bytes"] for each in reports))) > 0


def test_a_lost_manifest_reaches_a_worker_as_the_error_that_it_is(run: RecordedRun, pushed: dict[str, Any]) -> None:
    lost = run.folder.manifest_path("orders", 0)
    Path(str(lost)).unlink()
    event = start(run, "enriched")
    assert not pushed
    task = DecideOperator(task_id="decide", region="enriched", producers={}, exchange="/x", job="job", conn_id="c")
    with pytest.raises(MissingFileError, match=r"orders\[0\]: no manifest at .*: clear orders\[0\]") as caught:
        task.execute_complete({}, event.payload)  # type: ignore[typeddict-item]
    assert caught.value.path == str(lost)


MEBIBYTE = 2**20


def decide_enriched(root: Path, size: int, slots: int, admission: Admission) -> list[bool]:
    """Which of its six subtasks are to wait for a slot; its broadcast input has `size` bytes."""
    made = revenue_run(root, sizes=lambda name, *at: size if name == "customers" else skewed(name, *at))
    made.slots = slots
    made.write_plan()
    made.run("orders", "customers")
    found = decide(made.folder, "enriched", partial(read_reports, made.folder), admission)
    return [each["subtask"].get("queued", False) for each in found]


@pytest.mark.parametrize(
    ("slots", "admission", "queued"),
    [
        (2, Admission.QUEUE, True),
        (6, Admission.QUEUE, False),
        (2, Admission.BOUND, False),
        (2, Admission.FREE, False),
    ],
)
def test_subtasks_beyond_the_slots_wait_for_one_unless_something_else_bounds_them(
    tmp_path: Path, slots: int, admission: Admission, queued: bool
) -> None:
    assert decide_enriched(tmp_path, 1000, slots, admission) == [queued] * 6


def test_large_copies_that_nothing_bounds_are_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    decide_enriched(tmp_path, 3 * MEBIBYTE, 2, Admission.FREE)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "enriched: 6 subtasks go at once to a Spark server of 2 slots, and each holds the broadcast inputs from then "
        "on (3.0 MiB in files, several times that in memory); give the vertex a pool of 3 slots, or leave out "
        "deferrable=False"
    ]


@pytest.mark.parametrize(
    ("size", "slots", "admission"),
    [
        (3 * MEBIBYTE, 2, Admission.BOUND),
        (3 * MEBIBYTE, 2, Admission.QUEUE),
        (3 * MEBIBYTE, 6, Admission.FREE),
        (1000, 2, Admission.FREE),
    ],
)
def test_what_is_bound_or_small_or_has_its_slots_is_not_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: int, slots: int, admission: Admission
) -> None:
    decide_enriched(tmp_path, size, slots, admission)
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
