"""Subtasks of one region end in batches in the triggerer: a few seconds after the first one, or with the last.

Airflow's cost depends more on how often tasks end than on how many: each time its triggerer queries the database, and
its DAG processor parses the DAG file for callbacks that are not there. Nothing waits for a subtask but its region's
last one, which ends the batch. This is for subtasks that start in the triggerer: a deferred one may hold a slot of an
Airflow pool, which others wait for.
"""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_abs.execution.cancellation import KillableTrigger, killed_by_marks
from airflow_abs.execution.cleared import are_deferred, leave_if_cleared

_BATCH_SECONDS = 10.0
_BATCH_SIZE = 100  # Airflow's triggerer ends some 50 tasks a second, and does nothing else meanwhile

Siblings = tuple[str, str, str]


async def end_in_batch(trigger: KillableTrigger, work: Coroutine[Any, Any, TriggerEvent]) -> TriggerEvent:
    """Await `work`, which is what a subtask's trigger awaits, and return its event when the task may end.

    Raises:
        asyncio.CancelledError: the task was cleared, or is over; see `leave_if_cleared`.
    """
    instance = trigger.task_instance
    batches = _open_batches(instance)
    with batches.one_more():
        async with killed_by_marks(trigger):
            event = await work
        if instance is not None and isinstance(event, TaskSuccessEvent):
            is_deferred = await batches.join(instance)
        else:
            is_deferred = None  # a failure is not held back
    await leave_if_cleared(instance, is_deferred)
    return event


class EndingBatches:
    """The subtasks of one region that this triggerer awaits, and those of them that wait to end."""

    def __init__(self) -> None:
        self._awaited = 0
        self._ending: list[tuple[Any, asyncio.Future[bool]]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._asking: set[asyncio.Task[None]] = set()

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """A subtask comes, and leaves when it has ended, failed or was cancelled."""
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1
            self._end_if_full()

    async def join(self, instance: Any) -> bool:
        """Wait for the end of the batch; whether the task is still deferred then."""
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entry = (instance, place)
        self._ending.append(entry)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_BATCH_SECONDS, self._end)
        self._end_if_full()
        try:
            return await place
        finally:
            if entry in self._ending:  # cancelled before the others end
                self._ending.remove(entry)

    def _end_if_full(self) -> None:
        """A subtask whose batch has ended counts until it has left: a moment, in which no other needs to end."""
        if len(self._ending) >= min(self._awaited, _BATCH_SIZE):
            self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._ending = self._ending, []
        if any(not place.done() for _, place in batch):
            # Without the context of the trigger that happens to be here: this is not of its log alone.
            asking = asyncio.create_task(_answer(batch), context=contextvars.Context())
            self._asking.add(asking)
            asking.add_done_callback(self._asking.discard)


async def _answer(batch: Sequence[tuple[Any, asyncio.Future[bool]]]) -> None:
    waiting = [(instance, place) for instance, place in batch if not place.done()]
    try:
        answers = await asyncio.to_thread(are_deferred, [instance for instance, _ in waiting])
    except Exception as error:  # each of them fails by it, as if it asked alone
        for _, place in waiting:
            if not place.done():
                place.set_exception(error)
        return
    for (_, place), answer in zip(waiting, answers, strict=True):
        if not place.done():
            place.set_result(answer)


_regions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.WeakValueDictionary[Siblings, EndingBatches]] = (
    weakref.WeakKeyDictionary()
)


def _open_batches(instance: Any) -> EndingBatches:
    """Those of the task's siblings in this event loop; of none in `dag.test()`."""
    if instance is None:
        return EndingBatches()
    of_loop = _regions.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
    return of_loop.setdefault((instance.dag_id, instance.run_id, instance.task_id), EndingBatches())
