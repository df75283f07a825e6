"""Whoever ends a subtask in Airflow ends it on Spark, wherever it is awaited."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.spark_events import canceled_operations, operations_told
from tests.task_instances import mark_task, wait_for_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]

ROWS = 600  # a minute
RUN = "job.numbers.run"


@pytest.fixture(scope="module")
def many_numbers(folder: Path) -> Path:
    lake = folder / "data" / "many_numbers"
    lake.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT range AS number FROM range({ROWS})) TO '{lake}/part.parquet'")
    return lake


def test_an_operation_that_nobody_awaits_any_more_ends_with_its_run(
    airflow: AirflowServices, folder: Path, many_numbers: Path
) -> None:
    logs = folder / "spark-events"
    before = operations_told(logs, "Started")
    airflow.api.wait_for_dag("slow_in_triggerer", SECONDS)
    airflow.kill("triggerer")
    try:
        run_id = airflow.api.trigger_run("slow_in_triggerer", datetime(2026, 4, 2, tzinfo=UTC))
        wait_for_task(airflow.api, "slow_in_triggerer", run_id, RUN, {"deferred"}, SECONDS, map_index=0)
        mark_task(airflow.api, "slow_in_triggerer", run_id, RUN, "failed", map_index=0)
        assert airflow.api.wait_for_run("slow_in_triggerer", run_id, SECONDS) == "failed"
    finally:
        airflow.start("triggerer")
    (abandoned,) = operations_told(logs, "Started") - before
    wait_until(lambda: abandoned in canceled_operations(logs))
    assert abandoned not in operations_told(logs, "Finished")


@pytest.mark.parametrize(("dag_id", "state"), [("slow_in_worker", "running"), ("slow_in_triggerer", "deferred")])
def test_marking_a_subtask_failed_stops_it_on_spark(
    airflow: AirflowServices, folder: Path, many_numbers: Path, dag_id: str, state: str
) -> None:
    logs = folder / "spark-events"
    before = operations_told(logs, "Started")
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 4, 1, tzinfo=UTC))
    wait_for_task(airflow.api, dag_id, run_id, RUN, {state}, SECONDS, map_index=0)
    wait_until(lambda: bool(operations_told(logs, "ReadyForExecution") - before))
    if state == "deferred":
        wait_until(lambda: "starting" in airflow.api.task_log(dag_id, run_id, RUN, map_index=0))
    mark_task(airflow.api, dag_id, run_id, RUN, "failed", map_index=0)
    wait_until(lambda: bool(canceled_operations(logs) - before))
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "failed"
    assert not (folder / "mart" / dag_id).exists()


def test_a_subtask_past_its_execution_timeout_is_stopped_on_spark(
    airflow: AirflowServices, folder: Path, many_numbers: Path
) -> None:
    logs = folder / "spark-events"
    before = canceled_operations(logs)
    airflow.api.wait_for_dag("slow_and_limited", SECONDS)
    run_id = airflow.api.trigger_run("slow_and_limited", datetime(2026, 4, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("slow_and_limited", run_id, SECONDS) == "failed"
    assert canceled_operations(logs) - before
    assert "ran longer than its execution_timeout" in airflow.api.task_log("slow_and_limited", run_id, RUN, map_index=0)
