from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.triggers.base import TaskSuccessEvent

from airflow_abs.core.graph.job_graph import JobVertex
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.sources.files import Files
from airflow_abs.execution import subtask as life
from airflow_abs.execution.subtask import AwaitedSubtask, SubtaskRun
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.errors import OperationTakenOverError
from tests.job_runner import plan_run, program_of

RUN: dict[str, Any] = {
    "conn_id": "spark",
    "exchange": "file:///x",
    "dag_id": "dag",
    "run_id": "run",
    "job": "job",
    "task_id": "job.orders.run",
    "map_index": 0,
    "region": "orders",
    "attempt": 1,
    "subtask": {"index": 0, "subtasks": 1, "decision": "d"},
    "stall_after": 600.0,
}


def test_a_subtask_whose_operation_another_process_awaits_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, pushed: dict[str, Any]
) -> None:
    answers: list[Any] = [OperationTakenOverError("taken"), OperationTakenOverError("taken"), {"index": 0}]
    monkeypatch.setattr(life, "_AWAY_SECONDS", 0.0)
    monkeypatch.setattr(SubtaskRun, "run", AsyncMock(side_effect=answers))

    assert type(asyncio.run(AwaitedSubtask(SubtaskRun(**RUN)).end())) is TaskSuccessEvent
    place = {"dag_id": "dag", "task_id": "job.orders.run", "run_id": "run", "map_index": 0}
    assert pushed["return_value"] == ({"index": 0}, {**place, "_mapped_length": None})
    address, where = pushed["_link_AdaptivePlanLink"]  # as a worker does
    assert address.endswith("/dags/dag/runs/run/plugin/adaptive-plan?region=orders&subtask=0")
    assert where == {**place, "_mapped_length": None}


@pytest.mark.spark
def test_the_seconds_of_the_worker_that_had_it_first_count_too(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "orders.parquet")
    program = program_of("orders", None, {}, Files(str(tmp_path / "orders.parquet")), Files(str(tmp_path / "out")))
    vertices = [JobVertex("orders", has_source=True, has_sink=True)]
    job = plan_run(connect_server, tmp_path / "exchange", vertices, [], [program])
    began = time.time() - 100
    subtask = {**RUN["subtask"], "decision": job.decide("orders").digest, "ready": began - 7}
    run = SubtaskRun(**{**RUN, "exchange": str(tmp_path / "exchange"), "subtask": subtask, "began": began})
    asyncio.run(run.run(connect_server))
    manifest = read_manifest(job.folder, "orders", 0)
    assert manifest.waited == pytest.approx(7)
    assert 100 < manifest.seconds < 200  # a hundred on the worker, what is left of a minute here
    assert manifest.rows == 3
