"""What a worker makes of a trigger's word."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.execution.task_end import error_to_json
from airflow_abs.operators.run_subtask import RunSubtaskOperator
from airflow_abs.spark.errors import OperationCancelledError
from airflow_abs.triggers.start_subtask import StartSubtaskTrigger
from airflow_abs.triggers.subtask import SubtaskTrigger


def subtask_operator(**values: Any) -> RunSubtaskOperator:
    subtask = {"index": 0, "subtasks": 1, "decision": "d", **values}
    common: dict[str, Any] = {"exchange": "file:///nowhere", "job": "job", "conn_id": "spark", "stall_after": 600.0}
    return RunSubtaskOperator(
        task_id="run",
        region="orders",
        subtask=subtask,
        deferrable=True,
        defer_after=1.0,
        slot_options={"slots": 2, "resource_timeout": 300.0, "resource_stabilization": 10.0},
        execution_timeout=timedelta(minutes=5),
        **common,
    )


def resume(of: str, **values: Any) -> None:
    """Wake try 2 of subtask 0 with the word that this one was cancelled on Spark."""
    task = subtask_operator(**values)
    instance = SimpleNamespace(dag_id="dag", run_id="run", task_id="job.orders.run", map_index=0, try_number=2)
    context: Any = {"ti": instance}
    task.execute_complete(context, {"error": error_to_json(OperationCancelledError("released")), "of": of})


def test_what_went_wrong_is_raised() -> None:
    with pytest.raises(AirflowFailException, match="released"):
        resume("try 2 of job.orders.run[0], run run of dag dag")


@pytest.mark.parametrize("of", ["try 1 of job.orders.run[0]", "try 2 of job.orders.run[1]"])
def test_the_end_of_a_try_that_was_cleared_is_not_this_ones(of: str) -> None:
    with pytest.raises(TaskDeferred) as caught:
        resume(f"{of}, run run of dag dag")
    assert isinstance(caught.value.trigger, SubtaskTrigger)
    assert caught.value.trigger.serialize()[1]["attempt"] == 2


@pytest.mark.parametrize("values", [{}, {"queued": True}])
def test_in_a_dag_test_which_has_no_triggerer_a_subtask_stays_with_its_worker(
    monkeypatch: pytest.MonkeyPatch, values: dict[str, Any]
) -> None:
    async def run(self: SubtaskRun, endpoint: Any = None) -> dict[str, Any]:
        await asyncio.sleep(0.05)  # longer than it would be awaited
        return {"index": self.subtask["index"]}

    monkeypatch.setattr(SubtaskRun, "run", run)
    monkeypatch.setattr(SubtaskRun, "get_endpoint", lambda _: None)
    context: Any = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=0, try_number=1)}
    task = subtask_operator(**values)
    task.defer_after = 0.01
    with pytest.raises(TaskDeferred):
        task.execute(context)
    monkeypatch.setattr("airflow_abs.operators.run_subtask.is_dag_test", lambda: True)
    assert task.execute(context) == {"index": 0}


def test_a_queued_subtask_waits_in_the_triggerer_and_airflow_does_not_count_that_time() -> None:
    with pytest.raises(TaskDeferred) as caught:
        subtask_operator(queued=True).execute({})
    path, values = caught.value.trigger.serialize()
    assert path == "airflow_abs.triggers.start_subtask.StartSubtaskTrigger"
    assert values == {
        "conn_id": "spark",
        "exchange": "file:///nowhere",
        "job": "job",
        "region": "orders",
        "slots": 2,
        "resource_timeout": 300.0,
        "resource_stabilization": 10.0,
        "stall_after": 600.0,
        "execution_timeout": 300.0,
        "ephemeral": False,
        "deferred": True,
    }
    assert (caught.value.method_name, caught.value.timeout) == ("execute_complete", None)


def test_a_queued_subtask_that_is_woken_for_another_one_queues_again() -> None:
    with pytest.raises(TaskDeferred) as caught:
        resume("try 1 of job.orders.run[0]", queued=True)
    assert isinstance(caught.value.trigger, StartSubtaskTrigger)
