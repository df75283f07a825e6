"""`plan`, a subtask and a stream on a cluster whose first executor comes a minute late, or never."""

from __future__ import annotations

import asyncio
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.cli.commands.explain import describe_run
from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ResourcesError
from airflow_abs.spark.session_capacity import await_executors
from tests.job_runner import JobRun, plan_run, program_of, rows
from tests.spark.test_session_capacity import ended_stream, parquet
from tests.standalone import Standalone, worker_started

pytestmark = [pytest.mark.spark]

LATE_SECONDS = 75.0  # a subtask says what it waits for after a minute
RESOURCE_TIMEOUT = 240.0
SHORT_TIMEOUT = 3.0
NONE = "the cluster has at most 2 cores, as Spark says of one without executors; give the server"


def plan_copy(endpoint: ConnectEndpoint, root: Path, resource_timeout: float) -> JobRun:
    """A job that copies nine rows; planned as the task does it."""
    root.mkdir()
    with open_session(endpoint) as session:
        await_executors(session, "plan", resource_timeout)
    copied = program_of("rows", source=Files(parquet(root / "in")), sink=Files(str(root / "out")))
    vertex = JobVertex("rows", has_source=True, has_sink=True)
    return plan_run(endpoint, root / "exchange", [vertex], [], [copied], resource_timeout=resource_timeout)


def run(job: JobRun) -> None:
    asyncio.run(job.run_region("rows"))


def test_without_an_executor_each_ends_after_the_resource_timeout(
    connect_server: ConnectEndpoint, endpoint: ConnectEndpoint, tmp_path: Path
) -> None:
    subtask = replace(plan_copy(connect_server, tmp_path / "subtask", SHORT_TIMEOUT), endpoint=endpoint)
    with pytest.raises(
        ResourcesError, match=rf"^Spark ran nothing for \d+ s: plan wants one Spark task .*, and {NONE}"
    ):
        plan_copy(endpoint, tmp_path / "plan", SHORT_TIMEOUT)
    with pytest.raises(ResourcesError, match=rf"^Spark ran nothing for \d+ s: \d+ Spark tasks? to run, and {NONE}"):
        run(subtask)
    (tmp_path / "stream").mkdir()
    ended = ended_stream(endpoint, tmp_path / "stream", SHORT_TIMEOUT)
    assert ended.status == "FAILED"
    assert f"resource timeout: {NONE}" in ended.reason


def test_executors_that_come_a_minute_late_are_enough_for_all(
    connect_server: ConnectEndpoint,
    endpoint: ConnectEndpoint,
    cluster: Standalone,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Last: the cluster has a worker after it."""
    subtask = replace(plan_copy(connect_server, tmp_path / "subtask", RESOURCE_TIMEOUT), endpoint=endpoint)
    (tmp_path / "stream").mkdir()
    with ThreadPoolExecutor(3) as threads:
        planned = threads.submit(plan_copy, endpoint, tmp_path / "plan", RESOURCE_TIMEOUT)
        ran = threads.submit(run, subtask)
        streamed = threads.submit(ended_stream, endpoint, tmp_path / "stream", RESOURCE_TIMEOUT)
        assert not wait([planned, ran, streamed], LATE_SECONDS, FIRST_COMPLETED).done
        explained = [str(block) for block in describe_run(read_run(subtask.folder))]
        assert explained[-1].startswith("  waiting for resources: ")
        assert NONE.partition(";")[0] in explained[-1]
        with worker_started(cluster, tmp_path / "worker"):
            run(planned.result(RESOURCE_TIMEOUT))
            ran.result(RESOURCE_TIMEOUT)
            assert streamed.result(RESOURCE_TIMEOUT).status == "FINISHED"
            for job in (planned.result(), subtask):
                job.commit()
    for folder in ("plan", "subtask"):
        assert rows(f"SELECT id FROM '{tmp_path}/{folder}/out/*.parquet'") == [(number,) for number in range(9)]
    said = [message for message in caplog.messages if message.startswith("waiting for resources: ")]
    assert any("plan wants one Spark task" in message for message in said)
    assert any(
        "Spark task" in message and " to run, and the cluster has at most 2 cores" in message for message in said
    )
