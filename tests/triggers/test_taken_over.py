from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import create_autospec

import pytest
from airflow.triggers.base import TaskSuccessEvent

from airflow_abs.spark.errors import OperationTakenOverError
from airflow_abs.triggers import subtask as triggers
from airflow_abs.triggers.subtask import SubtaskRun, SubtaskTrigger

RUN = {
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


def test_a_trigger_whose_operation_another_process_awaits_stays_and_looks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[Any] = [OperationTakenOverError("taken"), OperationTakenOverError("taken"), {"index": 0}]
    monkeypatch.setattr(triggers, "_AWAY_SECONDS", 0.0)
    trigger = SubtaskTrigger(**RUN)
    trigger._subtask_run = create_autospec(SubtaskRun, instance=True)
    trigger._subtask_run.run.side_effect = answers  # type: ignore[attr-defined]
    pushed: list[Any] = []

    async def push(result: Any) -> None:
        pushed.append(result)

    monkeypatch.setattr(trigger, "_push", push)

    async def events() -> list[Any]:
        return [event async for event in trigger.run()]

    assert [type(event) for event in asyncio.run(events())] == [TaskSuccessEvent]
    assert pushed == [{"index": 0}]


def test_a_trigger_pushes_where_the_tasks_link_leads_as_a_worker_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    pushed: dict[str, Any] = {}

    async def push(key: str, value: Any, *, dag_id: str, task_id: str, run_id: str, map_index: int) -> None:
        assert (dag_id, task_id, run_id, map_index) == ("dag", "job.orders.run", "run", 0)
        pushed[key] = value

    monkeypatch.setattr(XCom, "aset", push)
    asyncio.run(SubtaskTrigger(**RUN)._push({"index": 0}))
    assert pushed["return_value"] == {"index": 0}
    address = pushed["_link_AdaptivePlanLink"]
    assert address.endswith("/dags/dag/runs/run/plugin/adaptive-plan?region=orders&subtask=0")
