from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.operators.release import ReleaseOperator


class TaskStates:
    """What Airflow tells a running task of others; the states are given."""

    def __init__(self, states: dict[str, str | None]) -> None:
        self.states = states

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return {run_ids[0]: self.states}


@pytest.mark.parametrize(
    ("states", "unfinished"),
    [
        ({"job.plan": "success", "job.orders.run_0": "success"}, set()),
        # decided again, to one subtask: the other two are there no more
        ({"job.orders.run_0": "success", "job.orders.run_1": "removed", "job.orders.run_2": "removed"}, set()),
        ({"job.orders.run_0": "failed", "job.sums.run": "upstream_failed"}, {"job.orders.run_0", "job.sums.run"}),
        ({"job.orders.run_0": None, "job.orders.run_1": "skipped"}, {"job.orders.run_0", "job.orders.run_1"}),
    ],
)
def test_subtasks_that_a_later_decision_dropped_keep_no_data(states: dict[str, Any], unfinished: set[str]) -> None:
    release = ReleaseOperator(task_id="release", task_ids=["job.plan"], exchange="/x", job="job", conn_id="spark")
    context: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="r"), "ti": TaskStates(states)}
    assert release._not_succeeded(context) == unfinished
