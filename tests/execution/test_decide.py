"""How many subtasks a region gets today, and how they are told."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from airflow_abs.core.slots.admission import Admission
from airflow_abs.exchange.records.reports import read_reports
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.execution.decide import decide
from tests.recorded_runs import revenue_run, skewed

MEBIBYTE = 2**20


def decide_enriched(root: Path, size: int, slots: int, admission: Admission) -> list[bool]:
    """Which of its six subtasks are to wait for a slot; its broadcast input has `size` bytes."""
    made = revenue_run(root, sizes=lambda name, *at: size if name == "customers" else skewed(name, *at))
    made.slots = slots
    made.write_plan()
    made.run("orders", "customers")
    records = RunRecords(made.folder)
    found = decide(records, "enriched", partial(read_reports, records), admission)
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


def test_what_a_triggerer_reads_is_what_a_worker_pulls(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    reports = read_reports(RunRecords(run.folder), "orders")
    stored = run.stored["orders"]
    assert [each["index"] for each in reports] == list(range(stored.decision.parallelism))
    assert {(each["subtasks"], each["decision"]) for each in reports} == {(stored.decision.parallelism, stored.digest)}
    assert sum(map(sum, (each["results"]["orders.hash"]["bytes"] for each in reports))) > 0


def test_a_region_gets_no_more_subtasks_than_airflow_maps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "4")
    caplog.set_level("INFO")
    assert len(decide_enriched(tmp_path, 1000, 2, Admission.BOUND)) == 4
    assert "max_map_length 4 forces" in caplog.text
