from __future__ import annotations

import logging
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from airflow_abs.core.durability.prediction import NO_HISTORY, RegionHistory, RunHistory
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records import job_history
from airflow_abs.exchange.records.job_history import KEPT_RUNS, read_history, remember_run
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.storage.whole_files import write_json

ORDERS = RegionHistory(
    regions=("orders",),
    bytes_in=1000,
    bytes_out=500,
    rows=10,
    seconds=2.5,
    machine_failures=1,
    predicted_seconds=2.0,
)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, "dag", "today", "job")


def run_of(number: int) -> RunHistory:
    return RunHistory(float(number), (ORDERS,), f"run-{number}", "2026-01-05", {"orders": 1000})


def test_what_is_remembered_is_read_back(folder: JobFolder) -> None:
    assert read_history(folder) == NO_HISTORY
    remember_run(folder, run_of(1))
    assert read_history(folder).runs == (run_of(1),)


def test_the_last_sixty_runs_are_kept_in_the_order_in_which_they_began(folder: JobFolder) -> None:
    for number in [*range(1, 30), *reversed(range(30, KEPT_RUNS + 6))]:
        remember_run(folder, run_of(number))
    # 65 were remembered; 1 to 5 began first
    assert read_history(folder).runs == tuple(map(run_of, range(6, KEPT_RUNS + 6)))


def test_a_run_that_ends_again_after_a_clear_is_remembered_once(folder: JobFolder) -> None:
    remember_run(folder, run_of(1))
    remember_run(folder, run_of(2))
    again = replace(run_of(1), began=3.0)
    remember_run(folder, again)
    assert read_history(folder).runs == (run_of(2), again)


def test_of_two_runs_that_end_at_once_at_most_one_is_left_out(
    folder: JobFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_run(folder, run_of(1))
    read = job_history._read
    monkeypatch.setattr(job_history, "_read", lambda of: (read(of), remember_between(of, run_of(2)))[0])

    def remember_between(of: JobFolder, other: RunHistory) -> None:
        monkeypatch.setattr(job_history, "_read", read)
        remember_run(of, other)

    remember_run(folder, run_of(3))
    assert read_history(folder).runs == (run_of(1), run_of(3))


def test_jobs_have_histories_of_their_own_which_are_no_runs(tmp_path: Path) -> None:
    for job in ("a", "a.b", "../x", "é" * 120):
        remember_run(JobFolder(tmp_path, "dag", "run", job), run_of(len(job)))
        assert read_history(JobFolder(tmp_path, "dag", "today", job)).runs == (run_of(len(job)),)
    assert list_runs(tmp_path) == []
    assert {path.parent for path in tmp_path.rglob("*.json")} == {tmp_path / "dag" / "_history"}


def test_a_damaged_history_counts_as_none_and_is_begun_anew(
    folder: JobFolder, caplog: pytest.LogCaptureFixture
) -> None:
    remember_run(folder, run_of(1))
    path = Path(str(folder.history_path))
    path.write_bytes(path.read_bytes()[:-5])
    with caplog.at_level(logging.WARNING):
        assert read_history(folder) == NO_HISTORY
        remember_run(folder, run_of(2))
    assert read_history(folder).runs == (run_of(2),)
    first, second = caplog.messages
    assert first.startswith(f"the history of job cannot be read, and counts as empty: {path}: ")
    assert second.startswith(f"the history of job starts over: {path}: ")


def test_a_history_of_another_version_counts_as_none(folder: JobFolder, caplog: pytest.LogCaptureFixture) -> None:
    write_json(folder.history_path, {"runs": [], "more": 1}, version=job_history.HISTORY_VERSION + 1)
    assert read_history(folder) == NO_HISTORY
    assert "format version 2, expected 1" in caplog.text
    remember_run(folder, run_of(1))
    assert read_history(folder).runs == (run_of(1),)


def test_storage_that_refuses_costs_the_entry_and_no_more(folder: JobFolder, caplog: pytest.LogCaptureFixture) -> None:
    Path(str(folder.history_path)).mkdir(parents=True)  # a folder where the file should be
    remember_run(folder, run_of(1))
    assert "this run is not added to the history of job: " in caplog.text
    assert read_history(folder) == NO_HISTORY


def test_a_run_that_is_planned_again_does_not_learn_from_itself(folder: JobFolder) -> None:
    remember_run(folder, run_of(1))
    remember_run(folder, replace(run_of(2), run_id="today"))
    assert read_history(folder).runs == (run_of(1),)


@pytest.mark.parametrize(
    ("field", "value"),
    [("seconds", 1e308), ("bytes_in", 10**30), ("bytes_out", 2**63), ("rows", 10**40), ("machine_failures", 10**30)],
)
def test_a_number_that_no_run_has_makes_a_history_count_as_none(
    folder: JobFolder, caplog: pytest.LogCaptureFixture, field: str, value: float
) -> None:
    """Even if the file is whole."""
    payload = asdict(run_of(1))
    payload["regions"] = [{**asdict(ORDERS), field: value}]
    write_json(folder.history_path, {"runs": [payload]}, version=job_history.HISTORY_VERSION)
    assert read_history(folder) == NO_HISTORY
    assert f"{field}: expected a" in caplog.text or "out of range" in caplog.text
    remember_run(folder, run_of(2))
    assert read_history(folder).runs == (run_of(2),)
