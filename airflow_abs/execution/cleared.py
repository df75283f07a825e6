"""A trigger whose task instance was cleared has nothing to say any more.

Airflow cancels it only when the task is queued again, and starts it once more should it end before that: the triggers
of a cleared run live on while `plan` and `decide` run. On SQLite the number of a trigger that is gone belongs to the
next one, which may be another task's: an event would wake that, and a task that is woken soon after its deferral loses
a try (apache/airflow#72716).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

log = logging.getLogger(__name__)

_LOOK_SECONDS = 3.0
# Airflow looks every second for what it has to cancel. Another task's trigger with this one's number waits meanwhile.
_LEAVE_SECONDS = 5.0


async def leave_if_cleared(instance: Any, is_deferred: bool | None = None) -> None:
    """Return if the task instance still waits for a trigger; None if Airflow cannot be asked (`dag.test()`).

    Else stay until Airflow cancels this trigger, which it may forget for another one of the same number.

    Args:
        is_deferred: what Airflow has just said of it; None to ask.

    Raises:
        asyncio.CancelledError: it has forgotten: the one end of a trigger that Airflow takes for no failure.
    """
    if instance is None:
        return
    if await asyncio.to_thread(is_in_state, "deferred", instance) if is_deferred is None else is_deferred:
        return
    log.info("the task was cleared, or is over: this trigger ends without an event")
    while await asyncio.to_thread(is_in_state, "null", instance):
        await asyncio.sleep(_LOOK_SECONDS)
    await asyncio.sleep(_LEAVE_SECONDS)
    raise asyncio.CancelledError


def is_in_state(state: str, instance: Any) -> bool:
    """Whether the task instance is in this state, by Airflow's database; True if it does not say."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        found = RuntimeTaskInstance.get_ti_count(
            dag_id=instance.dag_id,
            map_index=instance.map_index,
            task_ids=[instance.task_id],
            run_ids=[instance.run_id],
            states=[state],
        )
    except AirflowRuntimeError as error:
        log.warning("Airflow cannot tell whether this task is %s: %s", state, error)
        return True
    return found > 0


def are_deferred(instances: Sequence[Any]) -> list[bool]:
    """For each of some task instances that are mapped from one task in one run, asked at once; True if Airflow does
    not say."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    first = instances[0]
    if len(instances) == 1:
        return [is_in_state("deferred", first)]
    try:
        runs = RuntimeTaskInstance.get_task_states(
            dag_id=first.dag_id, task_ids=[first.task_id], run_ids=[first.run_id]
        )
    except AirflowRuntimeError as error:
        log.warning("Airflow cannot tell which subtasks of %s are deferred: %s", first.task_id, error)
        return [True] * len(instances)
    states = runs.get(first.run_id, {})
    return [states.get(f"{each.task_id}_{each.map_index}") == "deferred" for each in instances]
