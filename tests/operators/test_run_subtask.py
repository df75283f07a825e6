"""What a worker makes of a trigger's word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_abs.operators.run_subtask import RunSubtaskOperator
from airflow_abs.spark.errors import OperationCancelledError
from airflow_abs.triggers.subtask import SubtaskTrigger, error_to_json


def resume(attempt: int) -> None:
    """Wake try 2 with the word that this try was cancelled on Spark."""
    subtask = {"index": 0, "subtasks": 1, "decision": "d"}
    common: dict[str, Any] = {"exchange": "file:///nowhere", "job": "job", "conn_id": "spark"}
    task = RunSubtaskOperator(
        task_id="run", region="orders", subtask=subtask, deferrable=True, defer_after=1.0, stall_after=600.0, **common
    )
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="job.orders.run", map_index=0, try_number=2)
    context: Any = {"ti": instance}
    task.execute_complete(context, {"error": error_to_json(OperationCancelledError("released")), "attempt": attempt})


def test_what_went_wrong_is_raised() -> None:
    with pytest.raises(AirflowFailException, match="released"):
        resume(attempt=2)


def test_the_end_of_an_earlier_try_that_was_cleared_is_not_this_ones() -> None:
    with pytest.raises(TaskDeferred) as caught:
        resume(attempt=1)
    assert isinstance(caught.value.trigger, SubtaskTrigger)
    assert caught.value.trigger.serialize()[1]["attempt"] == 2
