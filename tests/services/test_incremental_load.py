"""An incremental load in a real Airflow, which is asked whether a run that has files of its own is over."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.core.incremental.position import Progress
from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.incremental.position_log import read_position
from airflow_abs.exchange.paths import JobFolder
from tests.task_instances import clear_task
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG = "hourly_load"


def deliver(folder: Path, first: int) -> None:
    lake = folder / "data" / "landing"
    lake.mkdir(exist_ok=True)
    duckdb.sql(f"COPY (SELECT {first} + range AS number FROM range(10)) TO '{lake}/from-{first}.parquet'")


def test_what_a_failed_run_has_not_published_the_next_one_reads_and_a_cleared_one_replaces_its_own(
    airflow: AirflowServices, folder: Path
) -> None:
    def run(hour: int, refused: str = "") -> tuple[str, str]:
        run_id = airflow.api.trigger_run(DAG, datetime(2026, 6, 1, hour, tzinfo=UTC), {"refused": refused})
        return run_id, airflow.api.wait_for_run(DAG, run_id, SECONDS)

    def check(*files: tuple[str, set[str]]) -> None:
        position = read_position(JobFolder(folder / "exchange", DAG, "any", "load"), "orders")
        assert [(e.run, {Path(file.path).stem for file in e.files}) for e in position.runs] == list(files)
        assert {entry.progress for entry in position.runs} == {Progress.READ}
        published = duckdb.sql(f"SELECT number FROM '{folder}/mart/hourly_load/*.parquet' ORDER BY 1").fetchall()
        assert published == duckdb.sql(f"SELECT number FROM '{folder}/data/landing/*.parquet' ORDER BY 1").fetchall()

    refused = folder / "refuse the load"
    refused.touch()
    deliver(folder, 0)
    airflow.api.wait_for_dag(DAG, SECONDS)
    first, state = run(0)
    assert state == "success"
    check((first, {"from-0"}))
    deliver(folder, 10)
    assert run(1, str(refused))[1] == "failed"
    deliver(folder, 20)
    third, state = run(2)
    assert state == "success"
    check((first, {"from-0"}), (third, {"from-10", "from-20"}))
    clear_task(airflow.api, DAG, first, "load.plan", downstream=True)
    assert airflow.api.wait_for_run(DAG, first, SECONDS) == "success"
    check((first, {"from-0"}), (third, {"from-10", "from-20"}))
