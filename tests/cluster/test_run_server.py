"""A Spark Connect server per run, on a real standalone master and worker: started, used, found again, ended."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from airflow.sdk.exceptions import AirflowRescheduleException

from airflow_abs import Ephemeral, Files
from airflow_abs.core.job_graph import JobEdge, JobVertex
from airflow_abs.core.partitioning import Partitioning
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.run_server import RunServer, read_server
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_abs.operators.run_server import StartServerOperator, StopServerOperator
from airflow_abs.spark.compile import VertexProgram
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.run_server import derive_token
from tests.job_runner import run_job
from tests.standalone import Standalone, choose_ports, started

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SECRET = "a long random text"
CONF = {"spark.driver.memory": "768m", "spark.executor.memory": "768m", "spark.ui.enabled": "false"}
CONTEXT: Any = {"dag_run": SimpleNamespace(dag_id="dag", run_id="run")}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with pytest.MonkeyPatch.context() as patch, started(choose_ports(), tmp_path_factory.mktemp("standalone")) as place:
        patch.setenv("AIRFLOW_CONN_CLUSTER", place.connection)
        connection = f'{{"conn_type": "spark_connect", "password": "{SECRET}"}}'
        patch.setenv("AIRFLOW_CONN_RUN_SPARK", connection)
        yield place


def task(kind: Any, exchange: Path, **conf: str) -> Any:
    server = Ephemeral("cluster", conf=CONF | conf, start_timeout=400)
    return kind(task_id="task", exchange=str(exchange), job="job", conn_id="run_spark", ephemeral=True, server=server)


def start(exchange: Path, **conf: str) -> Any:
    """What the task returns, in the end: on a slow machine Airflow would run it some times."""
    while True:
        with suppress(AirflowRescheduleException):
            return task(StartServerOperator, exchange, **conf).execute(CONTEXT)


def total(numbers: Any) -> Any:
    from pyspark.sql import functions as sf

    return numbers.groupBy("even").agg(sf.sum("number").alias("sum"))


def run_it(hook: AdaptiveSparkHook, exchange: Path, lake: Path, out: Path) -> None:
    lake.mkdir()
    duckdb.sql(f"COPY (SELECT range AS number, range % 2 = 0 AS even FROM range(1000)) TO '{lake}/part.parquet'")
    vertices = [JobVertex("numbers", has_source=True), JobVertex("total", has_sink=True)]
    edges = [JobEdge("numbers", "total", "numbers", Partitioning.HASH, ("even",))]
    programs = [
        VertexProgram("numbers", None, {}, Files(str(lake))),
        VertexProgram("total", total, {}, sink=Files(str(out))),
    ]
    run_job(hook.get_endpoint(), exchange, vertices, edges, programs, slots=None)


def shows(secret: str, exchange: Path, logs: str) -> list[str]:
    """Where somebody else could read the secret: command lines, the exchange, the task's log."""
    lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    files = {str(path): path.read_text(errors="replace") for path in exchange.rglob("*") if path.is_file()}
    return [where for where, text in {"ps": lines, "log": logs, **files}.items() if secret in text]


def test_a_server_is_started_used_found_again_and_ended(
    cluster: Standalone, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    exchange = tmp_path / "exchange"
    folder = JobFolder(exchange, "dag", "run", "job")
    said = start(exchange)
    (driver,) = cluster.drivers()
    server = read_server(folder)
    assert isinstance(server, RunServer)
    assert said == {"application": driver["id"], "address": f"{server.host}:{server.port}"}
    assert shows(derive_token(SECRET, server.key), exchange, caplog.text) == []
    assert start(exchange) == said  # a try that follows a lost worker
    hook = AdaptiveSparkHook("run_spark", folder)
    run_it(hook, exchange, tmp_path / "lake", tmp_path / "out")
    rows = duckdb.sql(f"SELECT even, \"sum\" FROM '{tmp_path}/out/*.parquet' ORDER BY even").fetchall()
    assert rows == [(False, sum(range(1, 1000, 2))), (True, sum(range(0, 1000, 2)))]
    (log,) = folder.start_path(server.key).glob("app-*")
    assert log.stat().st_size < 10_000  # what announces it is no log of everything that it does
    for _ in range(2):  # a teardown that is repeated finds nothing to do
        task(StopServerOperator, exchange).execute(CONTEXT)
    assert cluster.drivers() == []
    assert hook.find_endpoint() is None
    assert not folder.start_path(server.key).exists()
    with pytest.raises(ConnectServerUnreachableError, match="this run has no Spark server: it was not started; clear"):
        hook.get_endpoint()
