"""Regions that run inside another one: `plan`, or the first `decide` of them, skips their tasks; the run succeeds."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.task_instances import clear_task, read_xcom
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]

TOTALS = [(0, 1683), (1, 1617), (2, 1650)]


@pytest.fixture(scope="module")
def numbers(folder: Path) -> None:
    lake = folder / "data" / "numbers_of_one_day"
    lake.mkdir(parents=True, exist_ok=True)
    duckdb.sql(f"COPY (SELECT range AS number FROM range(100)) TO '{lake}/part.parquet'")


def states(airflow: AirflowServices, dag_id: str, run_id: str) -> dict[str, tuple[str | None, int]]:
    """State and tries by task, without the job's name."""
    found = airflow.api.task_instances(dag_id, run_id)
    return {each.task_id.removeprefix("job."): (each.state, each.try_number) for each in found}


def of(region: str, state: tuple[str, int], *more: str) -> dict[str, tuple[str, int]]:
    return {f"{region}.{task}": state for task in ("decide", "run", *more)}


def totals(folder: Path, dag_id: str) -> list[tuple[int, int]]:
    return duckdb.sql(f"SELECT digit, total FROM '{folder}/mart/{dag_id}/*.parquet' ORDER BY digit").fetchall()


@pytest.mark.sample
@pytest.mark.usefixtures("numbers")
def test_a_day_in_one_operation_is_five_tasks_and_stays_so_when_it_is_cleared(
    airflow: AirflowServices, folder: Path
) -> None:
    dag_id, ends, once = "kept_inside", ("plan", "release"), ("success", 1)
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    idle = of("numbers", ("skipped", 0)) | of("digits", ("skipped", 0)) | of("sums", ("skipped", 0))
    assert states(airflow, dag_id, run_id) == idle | of("large", once, "commit") | dict.fromkeys(ends, once)
    assert totals(folder, dag_id) == TOTALS
    assert read_xcom(airflow.api, dag_id, run_id, "job.plan")["regions"] == ["large"]
    assert read_xcom(airflow.api, dag_id, run_id, "job.release")["released_bytes"] > 0

    clear_task(airflow.api, dag_id, run_id, "job.digits.decide", downstream=True)
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    twice = ("success", 2)
    again = of("large", twice, "commit") | {"plan": once, "release": twice}
    assert states(airflow, dag_id, run_id) == idle | again
    assert totals(folder, dag_id) == TOTALS


@pytest.mark.usefixtures("numbers")
def test_behind_an_edge_that_is_written_the_first_decision_skips_what_is_idle(
    airflow: AirflowServices, folder: Path
) -> None:
    dag_id, once = "kept_inside_in_part", ("success", 1)
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    ran = of("digits", once) | of("large", once, "commit") | {"plan": once, "release": once}
    idle = of("numbers", ("skipped", 0)) | {"sums.decide": once, "sums.run": ("skipped", 0)}
    assert states(airflow, dag_id, run_id) == idle | ran
    assert totals(folder, dag_id) == TOTALS

    clear_task(airflow.api, dag_id, run_id, "job.sums.decide", downstream=True)
    assert airflow.api.wait_for_run(dag_id, run_id, SECONDS) == "success"
    twice = ("success", 2)
    again = {"sums.decide": twice, "release": twice} | of("large", twice, "commit")
    assert states(airflow, dag_id, run_id) == idle | ran | again
    assert totals(folder, dag_id) == TOTALS


@pytest.mark.usefixtures("numbers")
def test_a_chain_runs_in_the_tasks_of_its_last_region(airflow: AirflowServices, folder: Path) -> None:
    once = ("success", 1)
    airflow.api.wait_for_dag("chained", SECONDS)
    run_id = airflow.api.trigger_run("chained", datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("chained", run_id, SECONDS) == "success"
    ran = of("digits", once) | of("large", once, "commit") | {"plan": once, "release": once}
    idle = of("numbers", ("skipped", 0)) | {"sums.decide": once, "sums.run": ("skipped", 0)}
    assert states(airflow, "chained", run_id) == idle | ran
    assert read_xcom(airflow.api, "chained", run_id, "job.plan")["regions"] == ["digits", "large"]
    assert totals(folder, "chained") == TOTALS


def test_what_a_skipped_task_is_in_front_of_is_skipped_as_a_whole(airflow: AirflowServices, folder: Path) -> None:
    dag_id = "kept_inside_not_today"
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run_id = airflow.api.trigger_run(dag_id, datetime(2026, 1, 1, tzinfo=UTC))
    airflow.api.wait_for_run(dag_id, run_id, SECONDS)
    ran = {task for task, (state, _) in states(airflow, dag_id, run_id).items() if state != "skipped"}
    assert ran <= {"release"}
    assert not (folder / "mart" / dag_id).exists()
