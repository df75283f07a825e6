"""What tests do with single task instances, over Airflow's API: await, read, clear, mark, as a user does in the UI."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

from airflow_abs.demo.airflow_api import ENDED, POLL_SECONDS, AirflowApi, AirflowApiError, SubtaskState, run_path


def wait_for_task(
    api: AirflowApi, dag_id: str, run_id: str, task_id: str, states: set[str], seconds: float, map_index: int = -1
) -> SubtaskState:
    """Until this task instance is in one of `states`.

    Raises:
        AirflowApiError: the time is over, or the run ended before.
    """
    deadline = time.monotonic() + seconds
    while True:
        run = api.run_state(dag_id, run_id)
        instances = api.task_instances(dag_id, run_id)
        found = [each for each in instances if (each.task_id, each.map_index) == (task_id, map_index)]
        if found and found[0].state in states:
            return found[0]
        if run in ENDED or time.monotonic() > deadline:
            now = found[0].state if found else "not there"
            raise AirflowApiError(
                f"task {task_id}[{map_index}] of run {run_id!r} is {now} (run: {run}) after {seconds:g} s at most; "
                f"expected {' or '.join(sorted(states))}"
            )
        time.sleep(POLL_SECONDS)


def read_xcom(api: AirflowApi, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> Any:
    """What a task instance returned.

    Raises:
        AirflowApiError: nothing.
    """
    path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}/xcomEntries/return_value"
    return api.request("GET", path, params={"map_index": map_index, "deserialize": True})["value"]


def clear_task(
    api: AirflowApi, dag_id: str, run_id: str, task_id: str, map_index: int = -1, *, downstream: bool = False
) -> None:
    """Clear one task instance and, only if so asked, what comes after it."""
    body = {
        "dry_run": False,
        "dag_run_id": run_id,
        "task_ids": [task_id] if map_index < 0 else [[task_id, map_index]],
        "only_failed": False,
        "reset_dag_runs": True,
        "include_downstream": downstream,
    }
    api.request("POST", f"/dags/{quote(dag_id)}/clearTaskInstances", json=body)


def mark_task(api: AirflowApi, dag_id: str, run_id: str, task_id: str, state: str, map_index: int = -1) -> None:
    """Mark one task instance `success` or `failed`."""
    index = "" if map_index < 0 else f"/{map_index}"
    path = f"{run_path(dag_id, run_id)}/taskInstances/{quote(task_id)}{index}"
    api.request("PATCH", path, json={"new_state": state})
