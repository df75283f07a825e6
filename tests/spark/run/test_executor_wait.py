"""On a cluster without a worker, an operation ends with what it wanted; one that comes late is enough."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.slots.executors import Executors
from airflow_abs.spark.connect.capacity import seems_without_executors
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import OperationOutcome, Progress, execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id
from airflow_abs.spark.errors import ResourcesError
from airflow_abs.spark.run.executor_wait import ExecutorWait
from tests.spark.connect_plans import write_parquet
from tests.standalone import Standalone, worker_started

SECONDS = 2.0
LATE_SECONDS = 120.0


@pytest.mark.parametrize(
    ("capacity", "master", "fixed", "is_without"),
    [
        (2, "spark://host:7077", None, True),
        (3, "spark://host:7077", None, False),
        (2, "local-cluster[1,1,1024]", None, True),
        (2, "yarn", "200", False),
        (2, "local[2]", None, False),
        (1, "local", None, False),
        (None, "yarn", None, False),
        (2, None, None, False),
    ],
)
def test_two_cores_of_a_cluster_are_none(
    capacity: int | None, master: str | None, fixed: str | None, is_without: bool
) -> None:
    assert seems_without_executors(capacity, master, fixed) == is_without


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
def test_what_the_cluster_manager_says_of_executors_is_in_the_error(endpoint: ConnectEndpoint, tmp_path: Path) -> None:
    told = replace(endpoint, executors=lambda: Executors(0, 2, "its queue is full"), user_id="told")
    with pytest.raises(ResourcesError) as refused:
        asyncio.run(write(told, tmp_path / "out", SECONDS))
    said = "2 Spark tasks to run, and the cluster manager says: 0 executors run, 2 wait: its queue is full; give the "
    assert said in str(refused.value)


@pytest.mark.spark
def test_a_worker_that_comes_late_is_enough(endpoint: ConnectEndpoint, cluster: Standalone, tmp_path: Path) -> None:
    async def late() -> OperationOutcome:
        waits = asyncio.Event()
        written = asyncio.create_task(
            write(endpoint, tmp_path / "out", LATE_SECONDS, lambda seen: waits.set() if seen.tasks_total else None)
        )
        await asyncio.wait_for(waits.wait(), 60)
        entered = worker_started(cluster, tmp_path / "worker")  # not before the operation waits
        await asyncio.to_thread(entered.__enter__)
        try:
            return await written
        finally:
            await asyncio.to_thread(entered.__exit__, None, None, None)

    asyncio.run(late())
    assert list((tmp_path / "out").glob("*.parquet"))
