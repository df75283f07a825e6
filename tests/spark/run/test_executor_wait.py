"""On a cluster without a worker, `plan` and an operation end with what they wanted; one that comes late is enough."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.connect.capacity import executor_cores
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import OperationOutcome, Progress, execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ResourcesError
from airflow_abs.spark.planning import check_shared
from airflow_abs.spark.run.executor_wait import ExecutorWait
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.spark.connect_plans import write_parquet
from tests.standalone import Standalone, choose_ports, master_started, worker_started

SECONDS = 2.0
LATE_SECONDS = 120.0


@pytest.mark.parametrize(
    ("capacity", "master", "fixed", "cores"),
    [
        (2, "spark://host:7077", None, 0),
        (3, "spark://host:7077", None, 3),
        (2, "local-cluster[1,1,1024]", None, 0),
        (2, "yarn", "200", None),
        (2, "local[2]", None, None),
        (1, "local", None, None),
        (None, "yarn", None, None),
        (2, None, None, None),
    ],
)
def test_two_cores_of_a_cluster_are_none(
    capacity: int | None, master: str | None, fixed: str | None, cores: int | None
) -> None:
    assert executor_cores(capacity, master, fixed) == cores


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A master, nothing else."""
    place = choose_ports()
    with master_started(place, tmp_path_factory.mktemp("master")):
        yield place


@pytest.fixture(scope="module")
def endpoint(cluster: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectEndpoint]:
    folder = tmp_path_factory.mktemp("server")
    folder.chmod(0o700)
    conf = {
        "spark.master": f"spark://127.0.0.1:{cluster.port}",
        "spark.executor.memory": "512m",
        "spark.connect.progress.reportInterval": "200ms",
    }
    try:
        yield ensure_embedded_server(folder, settings=EmbeddedSettings(conf=tuple(conf.items())))
    finally:
        stop_embedded_server(folder)


async def write(
    endpoint: ConnectEndpoint, folder: Path, seconds: float, listener: Callable[[Progress], None] | None = None
) -> OperationOutcome:
    session = derive_id("test", uuid.uuid4())
    async with open_connection(endpoint) as connection:
        operation = Operation(
            session, derive_id(session, uuid.uuid4()), write_parquet("SELECT * FROM range(9)", folder)
        )
        wait = ExecutorWait(connection, operation, seconds, listener)
        async with asyncio.timeout(300), wait.bounded():
            return await execute_operation(connection, operation, on_progress=wait)


@pytest.mark.spark
def test_an_operation_ends_without_an_executor(
    endpoint: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(ResourcesError) as refused:
        asyncio.run(write(endpoint, tmp_path / "out", SECONDS))
    said = str(refused.value)
    assert said.startswith("Spark ran nothing for ")
    assert "2 Spark tasks to run, and the cluster has at most 2 cores, as Spark says of one without executors" in said
    assert f"give the server at {endpoint.address} executors" in said
    assert any(line.startswith("waiting for resources: ") for line in caplog.messages)


@pytest.mark.spark
def test_plan_ends_without_an_executor(endpoint: ConnectEndpoint, tmp_path: Path) -> None:
    with (
        open_session(endpoint) as session,
        pytest.raises(ResourcesError, match=r"Spark ran nothing for .* s: plan wants one Spark task"),
    ):
        check_shared(session, JobFolder(tmp_path, "dag", "run", "job"), SECONDS)


@pytest.mark.spark
def test_a_worker_that_comes_late_is_enough(endpoint: ConnectEndpoint, cluster: Standalone, tmp_path: Path) -> None:
    async def late() -> OperationOutcome:
        waits = asyncio.Event()
        written = asyncio.create_task(
            write(endpoint, tmp_path / "out", LATE_SECONDS, lambda seen: waits.set() if seen.tasks_total else None)
        )
        await asyncio.wait_for(waits.wait(), 60)
        entered = worker_started(cluster, tmp_path / "worker")
        await asyncio.to_thread(entered.__enter__)
        try:
            return await written
        finally:
            await asyncio.to_thread(entered.__exit__, None, None, None)

    asyncio.run(late())
    assert list((tmp_path / "out").glob("*.parquet"))
