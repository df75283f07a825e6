"""A trigger that Airflow has left running although its task was cleared."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
from airflow.sdk.execution_time.comms import ErrorResponse
from airflow.triggers.base import TaskSuccessEvent

from airflow_abs.execution import cleared
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.spark.errors import OperationCancelledError
from airflow_abs.triggers.subtask import SubtaskTrigger
from tests.execution.conftest import Supervisor
from tests.execution.test_subtask import RUN


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleared, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(cleared, "_LEAVE_SECONDS", 0.0)
    monkeypatch.setattr("airflow_abs.execution.task_end._SETTLED_SECONDS", 0.0)


def trigger() -> SubtaskTrigger:
    made = SubtaskTrigger(**RUN)
    made.task_instance = SimpleNamespace(  # type: ignore[assignment] # as the triggerer does
        dag_id="dag", run_id="run", task_id="job.orders.run", map_index=0, task=None
    )
    return made


async def events(of: SubtaskTrigger) -> list[Any]:
    return [event async for event in of.run()]


def test_the_end_of_an_operation_of_a_cleared_task_wakes_nobody(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleared run's `plan` ends its Spark sessions; the number of this trigger may be another task's soon.

    It stays until the task is scheduled again: Airflow would start it once more, and that would start on Spark.
    """
    monkeypatch.setattr(SubtaskRun, "run", AsyncMock(side_effect=OperationCancelledError("ended with its session")))
    supervisor.counts = [0, 1, 1, 0]
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(events(trigger()))
    where = {"dag_id": "dag", "run_ids": ["run"], "task_ids": ["job.orders.run"], "map_index": 0}
    states = ["deferred", "null", "null", "null"]
    assert supervisor.asked == [{**where, "states": [state]} for state in states]


def test_the_same_end_wakes_a_task_that_waits_for_it(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubtaskRun, "run", AsyncMock(side_effect=OperationCancelledError("somebody interrupted it")))
    (event,) = asyncio.run(events(trigger()))
    assert event.payload["error"]["spark"]["type"] == "OperationCancelledError"
    assert len(supervisor.asked) == 1


def test_an_airflow_that_does_not_say_is_no_reason_to_leave(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(**_: Any) -> int:
        raise AirflowRuntimeError(ErrorResponse(error=ErrorType.API_SERVER_ERROR))

    monkeypatch.setattr("airflow.sdk.execution_time.task_runner.RuntimeTaskInstance.get_ti_count", refuse)
    monkeypatch.setattr(SubtaskRun, "run", AsyncMock(return_value={"index": 0}))
    assert [type(event) for event in asyncio.run(events(trigger()))] == [TaskSuccessEvent]
    assert "Airflow cannot tell whether this task is deferred" in caplog.text
