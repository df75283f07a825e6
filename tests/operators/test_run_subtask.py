from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_abs.operators.run_subtask import RunSubtaskOperator
from airflow_abs.spark.endpoint import ConnectEndpoint
from airflow_abs.triggers.subtask import SubtaskRun

ENDPOINT = ConnectEndpoint("localhost", 15002)


def test_a_worker_asks_airflow_for_the_connection_before_the_clock_of_the_hand_over_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Airflow's client keeps its lock when it is cancelled at the wrong moment: then the task would hang for ever."""
    asked: list[str] = []

    def get_endpoint(run: SubtaskRun) -> ConnectEndpoint:
        asked.append("connection")
        return ENDPOINT

    async def run_for_long(run: SubtaskRun, endpoint: ConnectEndpoint) -> dict[str, Any]:
        assert endpoint is ENDPOINT
        asked.append("Spark")
        await asyncio.sleep(60)
        return {}

    monkeypatch.setattr(SubtaskRun, "get_endpoint", get_endpoint)
    monkeypatch.setattr(SubtaskRun, "run", run_for_long)
    operator = RunSubtaskOperator(
        task_id="run",
        region="orders",
        subtask={"index": 0},
        deferrable=True,
        defer_after=0.01,
        stall_after=600.0,
        exchange="file:///exchange",
        job="job",
        conn_id="spark",
    )
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="run", map_index=0, try_number=1)
    context: Any = {"ti": instance, "dag_run": SimpleNamespace(dag_id="dag", run_id="run")}
    with pytest.raises(TaskDeferred):
        operator.execute(context)
    assert asked == ["connection", "Spark"]
