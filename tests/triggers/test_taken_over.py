from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import AsyncMock

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
    monkeypatch: pytest.MonkeyPatch, pushed: dict[str, Any]
) -> None:
    answers: list[Any] = [OperationTakenOverError("taken"), OperationTakenOverError("taken"), {"index": 0}]
    monkeypatch.setattr(triggers, "_AWAY_SECONDS", 0.0)
    monkeypatch.setattr(SubtaskRun, "run", AsyncMock(side_effect=answers))

    async def events() -> list[Any]:
        return [event async for event in SubtaskTrigger(**RUN).run()]

    assert [type(event) for event in asyncio.run(events())] == [TaskSuccessEvent]
    place = {"dag_id": "dag", "task_id": "job.orders.run", "run_id": "run", "map_index": 0}
    assert pushed["return_value"] == ({"index": 0}, {**place, "_mapped_length": None})
    address, where = pushed["_link_AdaptivePlanLink"]  # as a worker does
    assert address.endswith("/dags/dag/runs/run/plugin/adaptive-plan?region=orders&subtask=0")
    assert where == {**place, "_mapped_length": None}
