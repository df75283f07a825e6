"""Real Airflow services and a real Spark: what is killed is found again, what is stopped stops, what is wrong fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.cli.services import AirflowServices
from tests.faults.conftest import SUBTASKS
from tests.faults.spark_events import ended_operations, operations, running_tasks, started_operations
from tests.faults.suite import run_suite

pytestmark = [pytest.mark.services, pytest.mark.spark]

SECONDS = 500.0
STOP_SECONDS = 60.0


def wait_until(what: Callable[[], bool], seconds: float = SECONDS) -> float:
    """Seconds until it was so; they are no measure of the project but of the machine."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds
        time.sleep(0.2)
    return time.monotonic() - started


def test_a_killed_triggerer_finds_twenty_subtasks_in_flight_again_and_submits_none_twice(
    airflow: AirflowServices, folder: Path
) -> None:
    """All twenty are deferred and started on Spark, and none can end before the gate is open."""
    airflow.api.wait_for_dag("many", SECONDS)
    run_id = airflow.api.trigger_run("many", datetime(2026, 1, 1, tzinfo=UTC), run_id="twenty")

    def in_flight() -> int:
        states = airflow.api.task_instances("many", run_id)
        return sum(each.task_id == "job.numbers.run" and each.state == "deferred" for each in states)

    wait_until(lambda: in_flight() == len(operations(folder / "events")) == SUBTASKS)
    airflow.kill("triggerer")
    airflow.start("triggerer")
    (folder / "mart" / "gates" / run_id).touch()
    assert airflow.api.wait_for_run("many", run_id, SECONDS) == "success"
    subtasks = [each for each in airflow.api.task_instances("many", run_id) if each.task_id == "job.numbers.run"]
    assert [each.try_number for each in subtasks] == [1] * SUBTASKS
    assert sorted(started_operations(folder / "events").values()) == [1] * SUBTASKS
    found = duckdb.sql(f"SELECT count(*), sum(number) FROM '{folder}/mart/many/*.parquet'").fetchall()
    assert found == [(SUBTASKS, sum(range(1, SUBTASKS + 1)))]


def test_what_somebody_marks_failed_stops_on_spark_within_seconds(airflow: AirflowServices, folder: Path) -> None:
    events = folder / "events"
    before = operations(events)
    airflow.api.wait_for_dag("few", SECONDS)
    run_id = airflow.api.trigger_run("few", datetime(2026, 1, 2, tzinfo=UTC), run_id="stopped")
    wait_until(lambda: bool(operations(events) - before) and running_tasks(airflow.spark_folder) > 0)
    airflow.api.wait_for_task("few", run_id, "job.numbers.run", {"deferred"}, SECONDS, map_index=0)
    airflow.api.request("PATCH", f"/dags/few/dagRuns/{run_id}", json={"state": "failed"})
    seconds = wait_until(lambda: operations(events) - before <= ended_operations(events), STOP_SECONDS)
    seconds += wait_until(lambda: running_tasks(airflow.spark_folder) == 0, STOP_SECONDS)
    print(f"marked failed: nothing of the run is left on Spark after {seconds:.1f} s")
    assert not (operations(events) - before) & ended_operations(events, "Finished")
    assert not (folder / "mart" / f"few-{run_id}").exists()


def test_an_exception_in_a_udf_fails_the_vertex_on_its_first_try_with_the_users_words_first(
    airflow: AirflowServices,
) -> None:
    airflow.api.wait_for_dag("wrong", SECONDS)
    run_id = airflow.api.trigger_run("wrong", datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("wrong", run_id, SECONDS) == "failed"
    run = next(each for each in airflow.api.task_instances("wrong", run_id) if each.task_id == "job.numbers.run")
    assert (run.state, run.try_number) == ("failed", 1)
    log = airflow.api.task_log("wrong", run_id, "job.numbers.run", map_index=run.map_index)
    error = next(line for line in log.splitlines() if "AirflowFailException: " in line)
    assert error.split("AirflowFailException: ")[1].startswith("ValueError: bad number ")
    assert "  in numbers[0] of 1 (files, " in log


def test_a_short_seeded_series_of_faults_is_survived(airflow: AirflowServices, folder: Path) -> None:
    report = run_suite(11, 6, folder, airflow)
    assert [run.state for run in report.runs] == ["success"] * len(report.runs)
    assert all(run.right for run in report.runs)
    assert sum(len(run.faults) for run in report.runs) >= 3
    assert report.twice == 0


def test_the_servers_token_is_in_no_log_plan_manifest_xcom_or_event(airflow: AirflowServices, folder: Path) -> None:
    from airflow_abs.spark.embedded_state import open_state_folder

    state = open_state_folder(airflow.spark_folder).read_state()
    assert state is not None
    home = airflow.home
    places = [home / "logs", home / "services", folder / "exchange", folder / "events", *home.glob("airflow.db*")]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    assert len(files) > 10
    assert [file for file in files if state.token.encode() in file.read_bytes()] == []
