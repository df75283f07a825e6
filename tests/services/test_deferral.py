"""A long subtask leaves its worker: the triggerer attaches to what runs, and ends the task itself."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.spark_events import started_operations
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]

FILES = 3
ROWS_PER_FILE = 25  # 2.5 s each: they are handed over after one


@pytest.fixture
def numbers(folder: Path) -> Path:
    lake = folder / "data" / "numbers"
    lake.mkdir(parents=True, exist_ok=True)
    for part in range(FILES):
        start = part * ROWS_PER_FILE
        query = f"SELECT range AS number FROM range({start}, {start + ROWS_PER_FILE})"
        duckdb.sql(f"COPY ({query}) TO '{lake}/part-{part}.parquet'")
    return lake


@pytest.mark.sample
def test_the_triggerer_ends_long_subtasks_and_nothing_is_submitted_twice(
    airflow: AirflowServices, folder: Path, numbers: Path
) -> None:
    before = started_operations(folder / "spark-events")
    airflow.api.wait_for_dag("slow", SECONDS)
    run_id = airflow.api.trigger_run("slow", datetime(2026, 3, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("slow", run_id, SECONDS) == "success"
    runs = [each for each in airflow.api.task_instances("slow", run_id) if each.task_id == "job.numbers.run"]
    assert [(each.map_index, each.state, each.try_number) for each in runs] == [
        (index, "success", 1) for index in range(FILES)
    ]
    logs = [airflow.api.task_log("slow", run_id, "job.numbers.run", map_index=index) for index in range(FILES)]
    assert all("not done after 1 s: the triggerer takes over" in log for log in logs)
    path = f"/dags/slow/dagRuns/{run_id}/taskInstances/job.numbers.run/links"
    links = airflow.api.request("GET", path, params={"map_index": 1})["extra_links"]
    assert links["Adaptive plan"].endswith("/plugin/adaptive-plan?region=numbers&subtask=1")
    submitted = started_operations(folder / "spark-events") - before
    assert sorted(submitted.values()) == [1] * FILES, submitted
    total = duckdb.sql(f"SELECT count(*), sum(number) FROM '{folder}/mart/slow/*.parquet'").fetchall()
    count = FILES * ROWS_PER_FILE
    assert total == [(count, sum(range(1, count + 1)))]
