"""The slot pool of one triggerer: which of the subtasks that start here may run on Spark now.

Airflow's own pools do not apply to tasks that start in the triggerer. The rules are the core's (`core/slot_pool.py`);
here are its clock, what it knows of the cluster, and those who wait. A pool lives in one event loop: another triggerer
has another one, of the same size.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import uuid
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from airflow_abs.core.slot_pool import Grant, SlotAction, SlotDemand, SlotPool
from airflow_abs.spark.errors import ResourcesError, SparkOperationError
from airflow_abs.spark.operations import derive_id

if TYPE_CHECKING:
    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook

log = logging.getLogger(__name__)

_FOLLOW_SECONDS = 10.0
_AGAIN_SECONDS = 2.0
_QUIET_SECONDS = 3.0
_REMIND_SECONDS = 60.0

# A triggerer that has just started first gets to know what runs on Spark already, before it lets anything else in.
_TAKEOVER_SECONDS = 2.0
_loaded_at = time.monotonic()

ReadCapacity = Callable[[], Awaitable[int]]


class SlotQueue:
    """Those who wait for a slot of one Spark cluster; get it from `open_slots`.

    Args:
        name: of the cluster, for messages.
        slots: a fixed number of them, or what asks the cluster how many it has now.
    """

    def __init__(self, name: str, slots: int | ReadCapacity) -> None:
        self.name = name
        self._pool = SlotPool()
        self._places: dict[int, asyncio.Future[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = ""
        self._follower: asyncio.Task[None] | None = None
        settled_in = max(0.0, _loaded_at + _TAKEOVER_SECONDS - time.monotonic())
        # Without the context of the trigger that came first: it outlives that one, and its log.
        context = contextvars.Context()
        if isinstance(slots, int):
            asyncio.get_running_loop().call_later(settled_in, self._set_capacity, slots, context=context)
        else:
            self._follower = asyncio.create_task(self._follow(slots, settled_in), context=context)

    @property
    def is_over(self) -> bool:
        """Nobody follows the cluster any more: open another one."""
        return self._follower is not None and self._follower.done()

    @property
    def is_idle(self) -> bool:
        """It can be forgotten: who comes next opens another one."""
        return self._pool.is_empty if self._follower is None else self._follower.done()

    @property
    def waiting(self) -> int:
        """How many have no slot yet."""
        return self._pool.waiting

    @asynccontextmanager
    async def slot(self, demand: SlotDemand, *, is_running: bool = False) -> AsyncIterator[None]:
        """Hold a slot, once there is one. What `is_running` on the cluster already has it at once.

        Raises:
            ResourcesError: the cluster had none for the whole resource timeout.
            SparkOperationError: the cluster does not let us in.
        """
        place: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if is_running:
            ticket, actions = self._pool.take_over(demand, self._now()), list[SlotAction]()
            place.set_result("it runs already")
        else:
            ticket, actions = self._pool.enter(demand, self._now())
        self._places[ticket] = place
        self._act(actions)
        try:
            await self._wait(ticket, place)
            yield
        finally:
            if self._places.pop(ticket, None) is not None:
                self._act(self._pool.leave(ticket, self._now()))

    async def _wait(self, ticket: int, place: asyncio.Future[str]) -> None:
        remind = _REMIND_SECONDS * (1 + ticket % 100 / 100)  # a thousand that came together do not speak together
        waits = 0
        while not (await asyncio.wait({place}, timeout=remind if waits else _QUIET_SECONDS))[0]:
            waits += 1
            trouble = f": {self._trouble}" if self._trouble else ""
            log.info("waiting for a slot of %s: %s%s", self.name, self._pool.explain(ticket), trouble)
        reason = place.result()
        if waits:
            log.info("has a slot of %s now (%s)", self.name, reason)

    async def _follow(self, read: ReadCapacity, settled_in: float) -> None:
        """Keep the capacity up to date until nobody has come for a while."""
        await asyncio.sleep(settled_in)
        was_used = True
        while was_used or not self._pool.is_empty:
            was_used, patience = not self._pool.is_empty, _FOLLOW_SECONDS
            try:
                slots, self._trouble = await read(), ""
            except SparkOperationError as error:
                slots, self._trouble, patience = 0, str(error), _AGAIN_SECONDS
                if not error.restartable:
                    self._fail(error)
            except Exception as error:  # whatever it is, nobody must wait for ever
                self._fail(error)
                return
            self._set_capacity(slots)
            await asyncio.sleep(patience)

    def _set_capacity(self, slots: int) -> None:
        self._act(self._pool.set_capacity(slots, self._now()))

    def _act(self, actions: Sequence[SlotAction]) -> None:
        for action in actions:
            if isinstance(action, Grant):
                self._places[action.ticket].set_result(action.reason)
            else:
                trouble = f" ({self._trouble})" if self._trouble else ""
                error = ResourcesError(
                    f"Spark cluster {self.name}: {action.reason}, none found{trouble}; start the Spark server or give "
                    "it executors, or raise resource_timeout"
                )
                self._places.pop(action.ticket).set_exception(error)
        self._set_timer()

    def _fail(self, error: Exception) -> None:
        for ticket, place in list(self._places.items()):
            if not place.done():
                del self._places[ticket]
                self._pool.leave(ticket, self._now())
                place.set_exception(error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._pool.waiting and self._pool.next_timer_at is not None:
            self._timer = asyncio.get_running_loop().call_at(self._pool.next_timer_at, self._tick)

    def _tick(self) -> None:
        self._act(self._pool.tick(self._now()))

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int | None], SlotQueue]] = (
    weakref.WeakKeyDictionary()
)


def open_slots(hook: AdaptiveSparkHook, fixed: int | None) -> SlotQueue:
    """The queue of a Spark server's cluster in this event loop, shared by all who name the same.

    Args:
        fixed: number of slots; None to follow the cluster.
    """
    of_loop = _queues.setdefault(asyncio.get_running_loop(), {})
    key = (hook.server_name, fixed)
    queue = of_loop.get(key)
    if queue is None or queue.is_over:
        for old in [name for name, each in of_loop.items() if each.is_idle]:
            del of_loop[old]  # runs with a server of their own come and go
        queue = of_loop[key] = SlotQueue(hook.server_name, fixed or _CapacityReader(hook))
    return queue


class _CapacityReader:
    """Asks the Spark server, in one session for all who ask; in another one after an error."""

    def __init__(self, hook: AdaptiveSparkHook) -> None:
        self._hook = hook
        self._session_id = derive_id("slots", hook.server_name)

    async def __call__(self) -> int:
        from airflow_abs.spark.capacity import read_capacity
        from airflow_abs.spark.connection import open_connection

        endpoint = await self._hook.aget_endpoint()
        async with open_connection(endpoint) as connection:
            try:
                return await read_capacity(connection, self._session_id)
            except SparkOperationError:
                self._session_id = str(uuid.uuid4())
                raise
