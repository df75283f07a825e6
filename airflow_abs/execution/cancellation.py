"""How Airflow cancels a trigger: with a message, if a user marked or cleared its task, and every second until it ends.

Without that message Airflow does not call `on_kill`; and it cancels what `on_kill` does, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

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


async def finish(work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work`, which goes on to its end if this is cancelled."""
    task = asyncio.create_task(work)
    _finishing.add(task)
    task.add_done_callback(_finishing.discard)
    return await asyncio.shield(task)
