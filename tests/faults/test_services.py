"""Real Airflow services and a real Spark: what is killed is found again, what is wrong fails."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.spark.run.attempt import SubtaskAttempt
from tests.faults.conftest import SUBTASKS
from tests.faults.injection import Pace
from tests.faults.pipeline import answer
from tests.faults.suite import read_output, run_suite
from tests.spark_events import bytes_read, operations, started_operations
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_a_killed_triggerer_finds_twenty_subtasks_in_flight_again_and_submits_none_twice(
    airflow: AirflowServices, folder: Path
) -> None:
    """All twenty are deferred and started on Spark, and none can end before the gate is open."""
    before = operations(folder / "events")
    airflow.api.wait_for_dag("many", SECONDS)
    run_id = airflow.api.trigger_run("many", datetime(2026, 1, 1, tzinfo=UTC), run_id="twenty")

    def in_flight() -> int:
        states = airflow.api.task_instances("many", run_id)
        return sum(each.task_id == "job.numbers.run" and each.state == "deferred" for each in states)

    try:
        wait_until(
            lambda: in_flight() == SUBTASKS <= len(operations(folder / "events") - before),
            seen=lambda: airflow.api.task_instances("many", run_id),
        )
        airflow.kill("triggerer")
        airflow.start("triggerer")
    finally:  # also for the tests after this one: twenty that wait hold all of Spark
        (folder / "mart" / "gates" / run_id).touch()
    assert airflow.api.wait_for_run("many", run_id, SECONDS) == "success"
    subtasks = [each for each in airflow.api.task_instances("many", run_id) if each.task_id == "job.numbers.run"]
    assert [each.try_number for each in subtasks] == [1] * SUBTASKS
    started = [times for (_, each), times in started_operations(folder / "events").items() if each not in before]
    assert started == [1] * SUBTASKS
    found = duckdb.sql(f"SELECT count(*), sum(number) FROM '{folder}/mart/many/*.parquet'").fetchall()
    assert found == [(SUBTASKS, sum(range(1, SUBTASKS + 1)))]


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


def test_a_failure_in_the_last_region_costs_no_more_than_what_one_subtask_reads(
    airflow: AirflowServices, folder: Path
) -> None:
    """A Python worker of Spark dies in one of two subtasks of the last of four regions."""
    before = operations(folder / "events")
    airflow.api.wait_for_dag("fails_last", SECONDS)
    run_id = airflow.api.trigger_run("fails_last", datetime(2026, 1, 1, tzinfo=UTC), run_id="fails-last")
    assert airflow.api.wait_for_run("fails_last", run_id, SECONDS) == "success"
    assert read_output(folder, run_id) == answer(folder / "lake")
    tries = {
        (each.task_id.split(".")[1], each.map_index): each.try_number
        for each in airflow.api.task_instances("fails_last", run_id)
        if each.task_id.endswith(".run")
    }
    ((region, failed),) = [subtask for subtask, number in tries.items() if number > 1]
    assert (region, tries.pop((region, failed))) == ("by_region", 2)
    assert set(tries.values()) == {1}

    job = JobFolder(folder / "exchange", "fails_last", run_id, "job")
    stored = read_decision(job, region)
    again = SubtaskAttempt(region, failed, 2, stored.digest).operation_id(job, 0)
    assert len(operations(folder / "events") - before) == len(tries) + 2  # the failed one twice, all others once
    sibling = SubtaskAttempt(region, 1 - failed, 1, stored.digest).operation_id(job, 0)
    read = bytes_read(folder / "events")
    print(f"recomputed {read[again]} bytes after a failure, beside a subtask that read {read[sibling]} bytes")
    assert 0 < read[again] <= 1.1 * read[sibling]


def test_a_short_seeded_series_of_faults_is_survived(airflow: AirflowServices, folder: Path) -> None:
    report = run_suite(11, 6, folder, airflow, pace=Pace(quiet_seconds=30.0))
    assert [run.state for run in report.runs] == ["success"] * len(report.runs)
    assert all(run.right for run in report.runs)
    assert sum(len(run.faults) for run in report.runs) >= 3
    assert report.twice == 0


def test_the_servers_token_is_in_no_log_plan_manifest_xcom_or_event(airflow: AirflowServices, folder: Path) -> None:
    from airflow_abs.spark.server.embedded_state import open_state_folder

    state = open_state_folder(airflow.spark_folder).read_state()
    assert state is not None
    home = airflow.home
    places = [home / "logs", home / "services", folder / "exchange", folder / "events", *home.glob("airflow.db*")]
    files = [file for place in places for file in ([place] if place.is_file() else place.rglob("*")) if file.is_file()]
    assert len(files) > 10
    assert [file for file in files if state.token.encode() in file.read_bytes()] == []
