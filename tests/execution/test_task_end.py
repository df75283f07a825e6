"""Ending a task from the triggerer, with an XCom backend that takes its time."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from airflow.sdk.bases.xcom import BaseXCom
from airflow.sdk.execution_time import xcom

from airflow_abs.execution.task_end import succeed

TASK = {"dag_id": "sales", "run_id": "daily-1", "task_id": "revenue.orders.run", "map_index": 3}
SECONDS = 20.0


class SlowBackend(BaseXCom):
    """Uploads until the event loop, which must not wait for it, says that it is enough."""

    uploaded: list[str | None]
    asked: threading.Event
    enough: threading.Event

    @staticmethod
    def serialize_value(value: Any, *, key: str | None = None, **place: Any) -> str:
        SlowBackend.uploaded.append(key)
        SlowBackend.asked.set()
        assert SlowBackend.enough.wait(SECONDS), "the event loop waits for the backend"
        return f"stored as {place['task_id']}"


def test_a_slow_xcom_backend_is_asked_once_and_does_not_hold_up_the_other_triggers(
    monkeypatch: pytest.MonkeyPatch, pushed: dict[str, Any]
) -> None:
    SlowBackend.uploaded, SlowBackend.asked, SlowBackend.enough = [], threading.Event(), threading.Event()
    monkeypatch.setattr(xcom, "XCom", SlowBackend)

    async def heartbeat() -> int:
        beats = 0
        while not SlowBackend.asked.is_set() or beats < 10:
            await asyncio.sleep(0.01)
            beats += 1
        assert not pushed
        SlowBackend.enough.set()
        return beats

    async def both() -> int:
        async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
            group.create_task(succeed(TASK, "orders", {"index": 3}))
            beats = group.create_task(heartbeat())
        return beats.result()

    assert asyncio.run(both()) >= 10
    assert pushed["return_value"] == ("stored as revenue.orders.run", {**TASK, "_mapped_length": None})
    # the link is stored as it is: Airflow's page does not ask a backend for it
    assert SlowBackend.uploaded == ["return_value"]
    (address,) = (value for key, (value, _) in pushed.items() if key != "return_value")
    assert "sales" in address
