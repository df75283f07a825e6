"""How Airflow cancels a trigger: with a message, if a user marked or cleared its task, and every second until it ends.

Without that message Airflow does not call `on_kill`; and it cancels what `on_kill` does, too. Below 3.3 there is no
message, and no call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

from airflow_abs.airflow_abilities import TRIGGERS_TOLD_OF_MARKS, has
from airflow_abs.execution.cleared import is_in_state
from airflow_abs.execution.triggerer_comms import ask_through_one_loop

Result = TypeVar("Result")

# The event loop alone would not keep them.
_finishing: set[asyncio.Task[Any]] = set()


async def keep_message(work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work`. If cancelled, cancel it and raise the very error that came, once it has ended.

    What is awaited in `work` may raise a `CancelledError` of its own instead: the calls of `grpc.aio` do.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise


class KillableTrigger(Protocol):
    """What awaits something on Spark."""

    task_instance: Any

    async def on_kill(self) -> None: ...


@asynccontextmanager
async def killed_by_marks(trigger: KillableTrigger) -> AsyncIterator[None]:
    """Call `on_kill` if a user marked or cleared the task meanwhile, where Airflow does not. For all that a trigger
    awaits: it also lets the trigger ask Airflow from threads.

    A triggerer that shuts down, or another one that takes over, leaves the task waiting for its trigger.
    """
    ask_through_one_loop()
    try:
        yield
    except asyncio.CancelledError:
        if not has(TRIGGERS_TOLD_OF_MARKS):
            await finish(_kill_unless_awaited(trigger))
        raise


async def _kill_unless_awaited(trigger: KillableTrigger) -> None:
    if not await asyncio.to_thread(is_in_state, "deferred", trigger.task_instance):
        await trigger.on_kill()


async def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work`, which continues to its end if this is cancelled."""
    task = asyncio.create_task(work)
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return await asyncio.shield(task)
