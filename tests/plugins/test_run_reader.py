"""What the page is told, from a made-up run and made-up task instances."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.durability.prediction import RegionHistory, RunHistory
from airflow_abs.exchange.records.job_history import remember_run
from airflow_abs.plugins import run_reader
from airflow_abs.plugins.airflow_runs import RunFacts, TaskFacts
from airflow_abs.plugins.run_reader import RunReader
from tests.recorded_runs import revenue_run

START = datetime(2026, 1, 4, tzinfo=UTC)
LIVE = RunFacts("daily_revenue", "manual__2026-01-03", "running", START, START, None)
OVER = RunFacts("daily_revenue", "manual__2026-01-03", "success", START, START, START)


def task(name: str, index: int, state: str, number: int = 1) -> TaskFacts:
    return TaskFacts(name, index, state, number, START, START if state == "success" else None)


def read_jobs(reader: RunReader, run: RunFacts, jobs: dict[str, str | None], tasks: dict[str, list[TaskFacts]]) -> Any:
    return reader.read_run(run, jobs, tasks, {})["jobs"]


def test_a_job_whose_plan_has_not_begun_says_so() -> None:
    tasks = {"revenue.plan": [task("revenue.plan", -1, "queued")]}
    (told,) = read_jobs(RunReader(Path), LIVE, {"revenue": None}, tasks)
    assert told["problem"].startswith("not planned yet")
    assert told["tasks"]["plan"]["state"] == "queued"
    assert "regions" not in told


def test_missing_data_is_named(tmp_path: Path) -> None:
    (told,) = read_jobs(RunReader(Path), OVER, {"revenue": str(tmp_path)}, {})
    assert told["missing"] is True
    assert told["problem"] == f"there is no plan at {tmp_path}/daily_revenue/manual__2026-01-03/revenue/plan.json"


def test_a_failed_plan_is_not_told_as_a_run_that_gc_deleted(tmp_path: Path) -> None:
    tasks = {"revenue.plan": [task("revenue.plan", -1, "failed")]}
    (told,) = read_jobs(RunReader(Path), OVER, {"revenue": str(tmp_path)}, tasks)
    assert told["problem"] == "its plan task has not stored a plan (state: failed)"
    assert "missing" not in told


def test_an_exchange_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    def refuse(uri: str) -> Any:
        raise ImportError(f"no driver for {uri}")

    (told,) = read_jobs(RunReader(refuse), OVER, {"revenue": "s3://x"}, {})
    assert told["problem"] == "ImportError: no driver for s3://x"
    assert RunReader(refuse).read_history([OVER], {OVER.run_id: {"revenue": "s3://x"}})[0]["jobs"] == {"revenue": {}}


def test_only_subtasks_that_airflow_calls_successful_are_read(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    name = "revenue.orders.run"
    tasks = {
        name: [task(name, 0, "success"), task(name, 1, "running"), task(name, 2, "success"), task(name, 3, "failed")]
    }
    (told,) = read_jobs(RunReader(Path), LIVE, {"revenue": str(tmp_path)}, tasks)
    orders = told["regions"][0]
    assert [subtask["rows"] for subtask in orders["subtasks"]] == [127, None, 143, None]
    assert [each["state"] for each in orders["tasks"]] == ["success", "running", "success", "failed"]
    assert told["regions"][2]["parallelism"] is None


def test_a_manifest_is_read_again_after_another_try_or_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = revenue_run(tmp_path)
    run.run("customers")
    reads: list[int] = []
    original: Callable[..., Any] = run_reader.read_committed

    def counted(folder: Any, region: str, index: int) -> Any:
        reads.append(index)
        return original(folder, region, index)

    monkeypatch.setattr(run_reader, "read_committed", counted)
    now = [0.0]
    reader = RunReader(Path, clock=lambda: now[0])
    name = "revenue.customers.run"

    def look(facts: RunFacts, number: int = 1) -> int:
        read_jobs(reader, facts, {"revenue": str(tmp_path)}, {name: [task(name, 0, "success", number)]})
        return len(reads)

    assert [look(LIVE), look(LIVE)] == [1, 1]
    now[0] = 100.0
    assert look(LIVE) == 2  # it may have been recomputed since
    assert look(LIVE, number=2) == 3
    now[0] = 1000.0
    assert look(OVER, number=2) == 3  # a run that is over does not change


def test_history_tells_fan_out_and_bytes_of_what_was_decided(tmp_path: Path) -> None:
    revenue_run(tmp_path).run("orders")
    (told,) = RunReader(Path).read_history([OVER], {OVER.run_id: {"revenue": str(tmp_path), "other": None}})
    assert told["jobs"] == {"revenue": {"orders": {"parallelism": 4, "bytes_in": 4000, "divided_bytes": 4000}}}


def test_history_tells_seconds_and_what_was_predicted_of_runs_that_are_over(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    whole = RegionHistory(("orders",), 4000, 1000, 10, 6.5, predicted_seconds=5.0)
    broken = RegionHistory(("customers",), 700, 100, 1, 9.9, is_whole=False)
    remember_run(run.folder, RunHistory(1.0, (whole, broken), OVER.run_id))
    (told,) = RunReader(Path).read_history([OVER], {OVER.run_id: {"revenue": str(tmp_path)}})
    assert told["jobs"]["revenue"] == {
        "orders": {"parallelism": 4, "bytes_in": 4000, "divided_bytes": 4000, "seconds": 6.5, "predicted_seconds": 5.0}
    }
