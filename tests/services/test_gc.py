from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.root_marker import mark_root
from airflow_abs.exchange.storage.whole_files import encode_json, write_atomic
from tests.waiting import SECONDS

pytestmark = pytest.mark.services

DAY = 86_400


def gc(airflow: AirflowServices, exchange: Path, *arguments: str) -> list[str]:
    command = [sys.executable, "-m", "airflow_abs.cli.main", "gc", "--exchange", f"file://{exchange}", *arguments]
    done = subprocess.run(command, env=airflow.env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "delete" in line]


def leave_data(exchange: Path, dag_id: str, run_id: str, age_days: float) -> Path:
    """A plan and one file of a subtask's, 1 KiB together, in a root that `plan` has marked."""
    mark_root(exchange)
    job = JobFolder(exchange, dag_id, run_id, "job")
    plan = encode_json({"id": "p", "regions": []})
    data = job.result_path("orders", 0, 1, "orders.whole") / "part-0.parquet"
    for path, content in ((job.plan_path, plan), (data, b"x" * (1024 - len(plan)))):
        write_atomic(path, content)
        os.utime(str(path), (time.time() - age_days * DAY,) * 2)
    return Path(str(job.path))


def test_old_data_of_ended_runs_goes_and_that_of_a_waiting_run_stays(airflow: AirflowServices, tmp_path: Path) -> None:
    airflow.api.wait_for_dag("waiting", SECONDS)
    date = datetime(2026, 2, 1, tzinfo=UTC)
    airflow.api.trigger_run("waiting", date, {"path": str(tmp_path / "landed")}, run_id="alive")
    exchange = tmp_path / "exchange"
    alive = leave_data(exchange, "waiting", "alive", age_days=9)
    ended = leave_data(exchange, "waiting", "ended", age_days=8)
    young = leave_data(exchange, "waiting", "young", age_days=6)
    told = "waiting/ended/job: 1.0 KiB in 2 files, unchanged for 8.0 days"
    assert gc(airflow, exchange, "--dry-run") == [f"would delete {told}"]
    assert ended.exists()
    assert gc(airflow, exchange) == [f"deleted {told}", f"1 job deleted, 1.0 KiB freed in file://{exchange}"]
    assert [folder.exists() for folder in (alive, ended, young)] == [True, False, True]
    (tmp_path / "landed").touch()
    assert airflow.api.wait_for_run("waiting", "alive", SECONDS) == "success"
