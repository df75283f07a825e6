"""Rows of a vertex that is not deterministic are lost in the middle of a run: it ends well, without anybody."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]


def test_sinks_agree_though_one_was_published_before_rows_were_lost(airflow: AirflowServices, folder: Path) -> None:
    lake = folder / "data" / "numbers_of_dice"
    lake.mkdir(parents=True, exist_ok=True)
    for part in range(2):
        query = f"SELECT range AS number FROM range(100) WHERE range % 2 = {part}"
        duckdb.sql(f"COPY ({query}) TO '{lake}/part-{part}.parquet'")
    airflow.api.wait_for_dag("dice", SECONDS)
    run_id = airflow.api.trigger_run("dice", datetime(2026, 1, 1, tzinfo=UTC))
    assert airflow.api.wait_for_run("dice", run_id, SECONDS) == "success"
    tries = {each.task_id: each.try_number for each in airflow.api.task_instances("dice", run_id)}
    assert set(tries.values()) == {1}
    first, second = (
        duckdb.sql(f"SELECT * FROM '{folder}/mart/dice_{name}/*.parquet' ORDER BY number").fetchall()
        for name in ("first", "second")
    )
    assert len(first) == 100
    assert second == [(number, dice, dice) for number, dice in first]
    log = airflow.api.task_log("dice", run_id, "job.second.commit")
    assert "first was published from outdated rows: publishing it again" in log
