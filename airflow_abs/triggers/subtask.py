"""Take a subtask over from its worker."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_abs.execution.cancellation import finish, killed_by_marks
from airflow_abs.execution.cleared import leave_if_cleared
from airflow_abs.execution.subtask import AwaitedSubtask, SubtaskRun
from airflow_abs.execution.task_end import settle


class SubtaskTrigger(BaseTrigger):
    """Takes a subtask over from its worker: sends the same request, pushes the XCom, ends the task.

    After a crash of the triggerer Airflow starts it again, and the same request attaches once more. `cleanup` is left
    alone on purpose: it is called on every exit, also on a triggerer's ordinary shutdown, when Spark must continue.
    """

    def __init__(self, *, deadline: float | None = None, **run: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._values = {"deadline": deadline, **run}
        self._subtask = AwaitedSubtask(SubtaskRun(**run), deadline)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (f"{type(self).__module__}.{type(self).__qualname__}", self._values)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        started = time.monotonic()
        async with killed_by_marks(self):
            event = await self._subtask.end()
        await leave_if_cleared(self.task_instance)
        await settle(event, started)
        yield event

    async def on_kill(self) -> None:
        await finish(self._subtask.run.interrupt())
