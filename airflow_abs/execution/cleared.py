"""A trigger whose task instance was cleared has nothing to say any more.

Airflow cancels it only when the task is queued again, and starts it once more should it end before that: the triggers
of a cleared run live on while `plan` and `decide` run. On SQLite the number of a trigger that is gone belongs to the
next one, which may be another task's: an event would wake that, and a task that is woken soon after its deferral loses
a try (apache/airflow#72716).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

log = logging.getLogger(__name__)

_LOOK_SECONDS = 3.0
# Airflow looks every second for what it has to cancel. Another task's trigger with this one's number waits meanwhile.
_LEAVE_SECONDS = 5.0


async def leave_if_cleared(instance: Any) -> None:
    """Return if the task instance still waits for a trigger; None if Airflow cannot be asked (`dag.test()`).

    Else stay until Airflow cancels this trigger, which it may forget for another one of the same number.

    Raises:
        asyncio.CancelledError: it has forgotten: the one end of a trigger that Airflow takes for no failure.
    """
    if instance is None or await asyncio.to_thread(is_in_state, "deferred", instance):
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
        log.warning("Airflow does not say whether this task is %s: %s", state, error)
        return True
    return found > 0
