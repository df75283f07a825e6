"""How the triggers of one process ask Airflow, where Airflow 3.1 keeps their questions and answers apart no better.

There each thread that asks has an event loop of its own, but all share one stream: two at once read each other's
answers, and what is cancelled leaves its answer to the next. Either ends the triggerer. From 3.2 on Airflow sees to it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import Any

from airflow_abs.airflow_abilities import THREADS_OF_TRIGGERERS, has

log = logging.getLogger(__name__)

_START_SECONDS = 60.0
_LOOK_SECONDS = 0.1


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


def start_asking_in_thread() -> None:
    """In a process that will run triggers, before it has an event loop: ask Airflow something as soon as one can.

    Airflow's triggerer answers triggers by an API server inside its other process, which it builds for the first
    question: 5 CPU seconds, which the first deferral would wait for. Below 3.2 a thread must not ask by itself.
    """
    if has(THREADS_OF_TRIGGERERS):
        threading.Thread(target=_ask_once, name="first-question", daemon=True).start()


def _ask_once() -> None:
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetTICount

    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        comms: Any = getattr(task_runner, "SUPERVISOR_COMMS", None)
        if comms is not None:
            try:
                comms.send(GetTICount(dag_id="airflow_abs"))  # of a DAG that is not there
            except RuntimeError:  # it does not read answers yet
                pass
            except Exception as error:  # a trigger that asks will meet the same, and say it where it is seen
                log.debug("the first question to Airflow failed: %s", error)
                return
            else:
                return
        time.sleep(_LOOK_SECONDS)  # Airflow tells nobody that the comms are there
