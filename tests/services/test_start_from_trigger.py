"""Subtasks that wait for a slot in the triggerer and end there, with a worker before or not: the same guarantees."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.services import AirflowServices
from tests.spark_events import operation_events, operations_told
from tests.task_instances import mark_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]

DAG = "from_trigger"
QUEUED = "queued"
RUN = "job.numbers.run"
FILES, ROWS_PER_FILE = 5, 20  # 2 s each, 2 at a time
SLOTS = 2


@pytest.fixture(scope="module")
def few_numbers(folder: Path) -> Path:
    lake = folder / "data" / "few_numbers"
    lake.mkdir(parents=True)
    for part in range(FILES):
        start = part * ROWS_PER_FILE
        query = f"SELECT range AS number FROM range({start}, {start + ROWS_PER_FILE})"
        duckdb.sql(f"COPY ({query}) TO '{lake}/part-{part}.parquet'")
    return lake


def started(event_logs: Path) -> Counter[str]:
    return Counter(each.operation for each in operation_events(event_logs) if each.what == "Started")


def most_at_once(event_logs: Path, ids: set[str]) -> int:
    """Of these operations, how many the server executed at the same time."""
    spans: dict[str, list[int]] = {}
    for each in operation_events(event_logs):
        if each.operation in ids and each.what in ("Started", "Finished", "Failed"):
            spans.setdefault(each.operation, []).append(each.at)
    return max(sum(start <= at < end for start, *_, end in spans.values()) for at, *_ in spans.values())


def subtasks(airflow: AirflowServices, run_id: str, dag_id: str = DAG) -> list[SubtaskState]:
    return [each for each in airflow.api.task_instances(dag_id, run_id) if each.task_id == RUN]


def worker_pids(airflow: AirflowServices, run_id: str) -> set[int | None]:
    """Of the workers that decided or ran subtasks of the run."""
    rows = airflow.api.request("GET", f"/dags/{DAG}/dagRuns/{run_id}/taskInstances")["task_instances"]
    return {row["pid"] for row in rows if row["task_id"].endswith((".run", ".decide"))}


def assert_right(folder: Path, run_id: str, dag_id: str = DAG) -> None:
    count = FILES * ROWS_PER_FILE
    found = duckdb.sql(f'SELECT "count", "sum" FROM \'{folder}/mart/{dag_id}/{run_id}/*.parquet\'').fetchall()
    assert found == [(count, sum(range(1, count + 1)))]


def test_no_worker_runs_a_subtask_and_slots_bound_how_many_run_also_across_a_crash_of_the_triggerer(
    airflow: AirflowServices, folder: Path, few_numbers: Path
) -> None:
    events = folder / "spark-events"
    before = started(events)
    airflow.api.wait_for_dag(DAG, SECONDS)
    run_id = airflow.api.trigger_run(DAG, datetime(2026, 5, 1, tzinfo=UTC), run_id="slots")
    wait_until(lambda: bool(started(events) - before))
    airflow.kill("triggerer")
    airflow.start("triggerer", wait=False)
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "success"
    assert_right(folder, run_id)
    assert worker_pids(airflow, run_id) == {None}
    assert {each.try_number for each in subtasks(airflow, run_id)} == {1}
    new = started(events) - before
    assert set(new.values()) == {1}  # nothing was submitted twice
    assert most_at_once(events, set(new)) == SLOTS


def test_a_subtask_that_failed_starts_again_in_the_triggerer(
    airflow: AirflowServices, folder: Path, few_numbers: Path
) -> None:
    conf = {"dies_at": "30", "once": str(folder / "died")}
    run_id = airflow.api.trigger_run(DAG, datetime(2026, 5, 2, tzinfo=UTC), conf, run_id="restarted")
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "success"
    assert_right(folder, run_id)
    (again,) = [each.map_index for each in subtasks(airflow, run_id) if each.try_number == 2]
    assert "failure 1: restart in 1.0 s" in airflow.api.task_log(DAG, run_id, RUN, again)
    logs = [airflow.api.task_log(DAG, run_id, RUN, index) for index in range(FILES)]
    # A triggerer that was killed keeps its share for half a minute: then it is one of the two slots, else both.
    waiting = re.compile(r"waiting for a slot of spark_connect_default: [12] of 2 slots in use, [12] by this run")
    assert any(waiting.search(log) for log in logs)


def test_what_somebody_marks_failed_is_stopped_on_spark_or_never_starts(
    airflow: AirflowServices, folder: Path, few_numbers: Path
) -> None:
    events = folder / "spark-events"
    before = started(events)
    run_id = airflow.api.trigger_run(DAG, datetime(2026, 5, 4, tzinfo=UTC), run_id="marked")
    wait_until(lambda: bool(started(events) - before))
    for index in reversed(range(FILES)):
        mark_task(airflow.api, DAG, run_id, RUN, "failed", map_index=index)
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "failed"
    new = started(events) - before
    wait_until(lambda: set(new) <= operations_told(events, "Canceled", "Finished", "Failed"))
    assert len(new) < FILES


def test_subtasks_beyond_the_slots_wait_in_the_triggerer_on_the_worker_path_too(
    airflow: AirflowServices, folder: Path, few_numbers: Path
) -> None:
    events = folder / "spark-events"
    before = started(events)
    airflow.api.wait_for_dag(QUEUED, SECONDS)
    conf = {"dies_at": "30", "once": str(folder / "died-queued")}
    run_id = airflow.api.trigger_run(QUEUED, datetime(2026, 5, 5, tzinfo=UTC), conf, run_id="queued")
    assert airflow.api.wait_for_run(QUEUED, run_id, SECONDS) == "success"
    assert_right(folder, run_id, QUEUED)
    (again,) = [each.map_index for each in subtasks(airflow, run_id, QUEUED) if each.try_number == 2]
    assert "failure 1: restart in 1.0 s" in airflow.api.task_log(QUEUED, run_id, RUN, again)
    new = started(events) - before
    assert set(new.values()) == {1}  # nothing was submitted twice
    assert most_at_once(events, set(new)) <= SLOTS
    logs = [airflow.api.task_log(QUEUED, run_id, RUN, index) for index in range(FILES)]
    assert all("its fan-out exceeds the slots of Spark: waiting for one in the triggerer" in log for log in logs)
    assert any("waiting for a slot of spark_connect_default" in log for log in logs)
