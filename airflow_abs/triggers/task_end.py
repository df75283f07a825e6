"""End a task from the triggerer as a worker would: push its result and where its link leads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from airflow.triggers.base import TaskSuccessEvent


async def succeed(
    task: dict[str, Any], region: str, result: Any, *, mapped_length: int | None = None
) -> TaskSuccessEvent:
    """Push everything, and give the event that ends the task.

    An XCom backend of the site's own may upload the result, with calls that block: it is asked in a thread. The link
    does not go through it, as in a worker: Airflow's page, which shows the link, does not ask the backend for it.

    Args:
        task: `dag_id`, `run_id`, `task_id` and `map_index`.
        region: whose page the link opens.
        mapped_length: how many tasks are mapped over the result. Airflow does not look for itself, as in a worker, and
            XComs that an event carries cannot be mapped over at all.
    """
    from airflow.sdk.bases.xcom import BaseXCom
    from airflow.sdk.execution_time.xcom import XCom

    from airflow_abs.hooks.links import AdaptivePlanLink, plan_address

    await asyncio.to_thread(partial(XCom.set, "return_value", result, **task, _mapped_length=mapped_length))
    address = plan_address(task["dag_id"], task["run_id"], region, task["map_index"])
    await BaseXCom.aset(AdaptivePlanLink().xcom_key, address, **task)
    return TaskSuccessEvent()
