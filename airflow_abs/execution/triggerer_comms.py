"""How the triggers of one process ask Airflow, where Airflow 3.1 keeps their questions and answers apart no better.

There each thread that asks has an event loop of its own, but all share one stream: two at once read each other's
answers, and what is cancelled leaves its answer to the next. Either ends the triggerer. From 3.2 on Airflow sees to it.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from airflow_abs.airflow_abilities import THREADS_OF_TRIGGERERS, has


class LoopComms:
    """Sends all requests through one event loop, and awaits every answer, even if the caller is cancelled.

    Args:
        comms: Airflow's own; all else is its.
        loop: the one that runs the triggers, in this thread.
    """

    def __init__(self, comms: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._comms, self._loop, self._thread = comms, loop, threading.get_ident()
        self._asking: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comms, name)

    def send(self, message: Any) -> Any:
        if threading.get_ident() == self._thread:  # which Airflow refuses in its own words
            return self._comms.send(message)
        return asyncio.run_coroutine_threadsafe(self.asend(message), self._loop).result()

    async def asend(self, message: Any) -> Any:
        asking = self._loop.create_task(self._comms.asend(message))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return await asyncio.shield(asking)


def ask_through_one_loop() -> None:
    """For triggers, at their start: once in a process."""
    if has(THREADS_OF_TRIGGERERS):
        return
    from airflow.sdk.execution_time import task_runner

    comms: Any = task_runner.SUPERVISOR_COMMS
    if not isinstance(comms, LoopComms):
        task_runner.SUPERVISOR_COMMS = LoopComms(comms, asyncio.get_running_loop())  # type: ignore[assignment]
