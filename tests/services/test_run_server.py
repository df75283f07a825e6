"""A Spark server per run on a real standalone cluster: none is left after a failure, and clearing brings a new one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest

from airflow_abs import Ephemeral
from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.server_record import read_server
from airflow_abs.operators.run_server import StartServerOperator
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import derive_token
from tests.standalone import RUN_CONNECTION, RUN_SECRET, Standalone, started
from tests.task_instances import clear_task, read_xcom, wait_for_task
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG = "own_server"


@pytest.fixture(scope="module")
def cluster(standalone: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with started(standalone, tmp_path_factory.mktemp("standalone")) as place:
        yield place


def tries(airflow: AirflowServices, run_id: str) -> dict[str, tuple[str | None, int]]:
    found = airflow.api.task_instances(DAG, run_id)
    return {each.task_id.removeprefix("job."): (each.state, each.try_number) for each in found}


def readable(*folders: Path) -> str:
    """What somebody else could read: command lines, the exchange, the logs of tasks."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return "\n".join([lines, *(path.read_text(errors="replace") for path in files)])


def test_the_server_ends_with_a_failed_run_and_what_is_cleared_brings_a_new_one(
    airflow: AirflowServices, cluster: Standalone, folder: Path
) -> None:
    lake, refused = folder / "data" / "some_numbers", folder / "refused"
    lake.mkdir(parents=True)
    duckdb.sql(f"COPY (SELECT range AS number FROM range(100)) TO '{lake}/part.parquet'")
    refused.touch()
    airflow.api.wait_for_dag(DAG, SECONDS)
    run_id = airflow.api.trigger_run(DAG, datetime(2026, 6, 1, tzinfo=UTC), {"refused": str(refused)})
    wait_for_task(airflow.api, DAG, run_id, "job.numbers.run", {"success"}, SECONDS, map_index=0)
    run = JobFolder(folder / "exchange", DAG, run_id, "job")
    server = read_server(run)
    assert server is not None
    assert read_xcom(airflow.api, DAG, run_id, "job.start_server")["application"] == server.application
    assert derive_token(RUN_SECRET, server.key) not in readable(folder / "exchange", folder / "airflow" / "logs")
    (log,) = run.start_path(server.key).glob("app-*")
    assert log.stat().st_size < 10_000  # it says where the server is, and little else of what happened since

    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "failed"
    assert "refused" in airflow.api.task_log(DAG, run_id, "job.total.run", 0)
    assert cluster.drivers() == []
    first = {"total.run": ("failed", 1), "total.commit": ("upstream_failed", 0)}
    once = dict.fromkeys(("plan", "numbers.decide", "numbers.run", "total.decide"), ("success", 1))
    ends = ("start_server", "stop_server", "release")
    assert tries(airflow, run_id) == once | dict.fromkeys(ends, ("success", 1)) | first

    refused.unlink()
    clear_task(airflow.api, DAG, run_id, "job.total.run", downstream=True)
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "success"
    assert duckdb.sql(f"SELECT * FROM '{folder}/mart/own_server/*.parquet'").fetchall() == [(4950,)]
    assert cluster.drivers() == []
    assert [each["state"] for each in cluster.drivers("completed")] == ["KILLED", "KILLED"]
    again = dict.fromkeys((*ends, "total.run"), ("success", 2))
    assert tries(airflow, run_id) == once | again | {"total.commit": ("success", 1)}


def test_a_server_that_ends_before_it_answers_is_told_and_nothing_is_left(
    cluster: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", cluster.connection)
    monkeypatch.setenv("AIRFLOW_CONN_RUN_SPARK", RUN_CONNECTION)
    server = Ephemeral(
        "cluster", conf={"spark.driver.extraJavaOptions": "-javaagent:/none.jar"}
    )  # the JVM ends at once
    task: Any = StartServerOperator(
        task_id="task", exchange=str(tmp_path), job="job", conn_id="run_spark", ephemeral=True, server=server
    )
    with pytest.raises(ConnectServerUnreachableError, match=r"Spark server driver-\S+ is FAILED and never answered"):
        task.execute({"dag_run": SimpleNamespace(dag_id="dag", run_id="run")})
    assert cluster.drivers() == []
    left = read_server(JobFolder(tmp_path, "dag", "run", "job"))
    assert left is not None
    assert left.application == ""
