"""Whoever ends a subtask in Airflow ends it on Spark, wherever it is awaited."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.task_instances import mark_task, wait_for_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]

ROWS = 600  # a minute
RUN = "job.numbers.run"
DERIVED = 5  # version of the ids of a subtask's operations


@pytest.fixture(scope="module")
def many_numbers(folder: Path) -> Path:
    lake = folder / "data" / "many_numbers"
    lake.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT range AS number FROM range({ROWS})) TO '{lake}/part.parquet'")
    return lake


def operations(event_logs: Path, what: str) -> set[str]:
    """Ids of the subtasks' operations that the Spark server says this of."""
    kind = f"org.apache.spark.sql.connect.service.SparkListenerConnectOperation{what}"
    events = [
        json.loads(line)
        for log in event_logs.rglob("*")
        if log.is_file()
        for line in log.read_text(encoding="utf-8").splitlines()
        if kind in line
    ]
    return {event["operationId"] for event in events if UUID(event["operationId"]).version == DERIVED}


def test_an_operation_that_nobody_awaits_any_more_ends_with_its_run(
    airflow: AirflowServices, folder: Path, many_numbers: Path
) -> None:
    logs = folder / "spark-events"
    before = operations(logs, "Started")
    airflow.api.wait_for_dag("slow_in_triggerer", SECONDS)
    airflow.kill("triggerer")
    try:
        run_id = airflow.api.trigger_run("slow_in_triggerer", datetime(2026, 4, 2, tzinfo=UTC))
        wait_for_task(airflow.api, "slow_in_triggerer", run_id, RUN, {"deferred"}, SECONDS, map_index=0)
        mark_task(airflow.api, "slow_in_triggerer", run_id, RUN, "failed", map_index=0)
        assert airflow.api.wait_for_run("slow_in_triggerer", run_id, SECONDS) == "failed"
    finally:
        airflow.start("triggerer")
    (abandoned,) = operations(logs, "Started") - before
    wait_until(lambda: abandoned in operations(logs, "Canceled") | operations(logs, "Closed"))
    assert abandoned not in operations(logs, "Finished")


@pytest.mark.parametrize(("dag_id", "state"), [("slow_in_worker", "running"), ("slow_in_triggerer", "deferred")])
def test_marking_a_subtask_failed_stops_it_on_spark(
    airflow: AirflowServices, folder: Path, many_numbers: Path, dag_id: str, state: str
) -> None:
    logs = folder / "spark-events"
    before = operations(logs, "Started")
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 4, 1, tzinfo=UTC))
    wait_for_task(airflow.api, dag_id, run_id, RUN, {state}, SECONDS, map_index=0)
    wait_until(lambda: bool(operations(logs, "ReadyForExecution") - before))
    if state == "deferred":
        wait_until(lambda: "starting" in airflow.api.task_log(dag_id, run_id, RUN, map_index=0))
    mark_task(airflow.api, dag_id, run_id, RUN, "failed", map_index=0)
    wait_until(lambda: bool(operations(logs, "Canceled") - before))
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "failed"
    assert not (folder / "mart" / dag_id).exists()


def test_a_subtask_past_its_execution_timeout_is_stopped_on_spark(
    airflow: AirflowServices, folder: Path, many_numbers: Path
) -> None:
    logs = folder / "spark-events"
    before = operations(logs, "Canceled")
    airflow.api.wait_for_dag("slow_and_limited", SECONDS)
    run_id = airflow.api.trigger_run("slow_and_limited", datetime(2026, 4, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("slow_and_limited", run_id, SECONDS) == "failed"
    assert operations(logs, "Canceled") - before
    assert "ran longer than its execution_timeout" in airflow.api.task_log("slow_and_limited", run_id, RUN, map_index=0)
