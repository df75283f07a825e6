"""End a task from the triggerer: push its result and where its link leads, or wake a worker that raises the error."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

# A task that is resumed sooner after its deferral can be failed by a stale executor event (apache/airflow#72716): the
# event comes when the worker's supervisor is done, which was seen 5.2 s after the deferral.
_SETTLED_SECONDS = 8.0


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

    from airflow_abs.execution.links import AdaptivePlanLink, plan_address

    def push() -> None:
        XCom.set("return_value", result, **task, _mapped_length=mapped_length)
        address = plan_address(task["dag_id"], task["run_id"], region, task["map_index"])
        BaseXCom.set(AdaptivePlanLink().xcom_key, address, **task)

    await asyncio.to_thread(push)
    return TaskSuccessEvent()


async def settle(event: TriggerEvent, deferred_at: float) -> None:
    """Before a worker is woken: its deferral must be known everywhere. `deferred_at` is of the monotonic clock."""
    if not isinstance(event, TaskSuccessEvent):
        await asyncio.sleep(max(0.0, _SETTLED_SECONDS - (time.monotonic() - deferred_at)))


def error_to_json(error: Exception) -> dict[str, Any]:
    """An error of the exchange or of Spark as plain values, for the worker that raises it again."""
    from airflow_abs.spark.errors import SparkOperationError

    if isinstance(error, SparkOperationError):
        return {"spark": error.to_json()}
    return {"exchange": {"type": type(error).__name__, "message": str(error), "path": getattr(error, "path", "")}}


def error_from_json(value: Mapping[str, Any]) -> Exception:
    """Inverse of `error_to_json`."""
    from airflow_abs.exchange.errors import ExchangeError
    from airflow_abs.spark.errors import SparkOperationError

    if "spark" in value:
        return SparkOperationError.from_json(value["spark"])
    return ExchangeError.from_json(value["exchange"])
