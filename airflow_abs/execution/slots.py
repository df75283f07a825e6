"""The slot pool of one triggerer: which of the subtasks that start here may run on Spark now.

Airflow's own pools do not apply to tasks that start in the triggerer. The rules are the core's
(`core/slots/slot_pool.py`); here are its clock, what it knows of the cluster, and those who wait. A pool lives in one
event loop; triggerers that use the same cluster have one each, and divide the slots (`core/slots/slot_shares.py`) by
what they tell each other on the Spark server (`spark/connect/slot_board.py`).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_abs.core.slots.slot_pool import Grant, SlotAction, SlotDemand, SlotPool
from airflow_abs.core.slots.slot_shares import divide_slots
from airflow_abs.spark.connect.slot_board import SlotBoard
from airflow_abs.spark.errors import ResourcesError, SparkOperationError

if TYPE_CHECKING:
    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

log = logging.getLogger(__name__)

_FOLLOW_SECONDS = 10.0
_AGAIN_SECONDS = 2.0
_QUIET_SECONDS = 3.0
_REMIND_SECONDS = 60.0

# A triggerer that has just started first gets to know what runs on Spark already, before it lets anything else in.
_TAKEOVER_SECONDS = 2.0
_loaded_at = time.monotonic()


@dataclass(frozen=True, slots=True)
class ClusterSlots:
    """What a cluster has now. `demands`: slots that each triggerer holds or waits for, by name; `me` is this one's.
    `lack` is what its manager says of a cluster without executors."""

    capacity: int
    me: str = ""
    demands: Mapping[str, int] = field(default_factory=dict)
    lack: str = ""


class SlotSource(Protocol):
    """Where the slots are, and who else deals them out."""

    async def read(self, demand: int) -> ClusterSlots:
        """Tell the others how many slots are asked for here, and look at the cluster.

        Raises:
            SparkOperationError: it does not answer, or does not let us in.
        """

    async def leave(self) -> None:
        """No task in this process asks for slots any more."""


class SlotQueue:
    """Those who wait for a slot of one Spark cluster; get it from `open_slots`.

    Args:
        name: of the cluster, for messages.
        source: what knows of the cluster.
    """

    def __init__(self, name: str, source: SlotSource) -> None:
        self.name = name
        self._pool = SlotPool()
        self._seen = ClusterSlots(0)
        self._places: dict[int, asyncio.Future[str]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._trouble = ""
        settled_in = max(0.0, _loaded_at + _TAKEOVER_SECONDS - time.monotonic())
        # Without the context of the trigger that came first: it outlives that one, and its log.
        self._follower = asyncio.create_task(self._follow(source, settled_in), context=contextvars.Context())

    @property
    def is_over(self) -> bool:
        """This one no longer follows the cluster: open another one."""
        return self._follower.done()

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
        self._divide()
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
            told = self._trouble or self._seen.lack
            trouble = f": {told}" if told else ""
            log.info("waiting for a slot of %s: %s%s", self.name, self._pool.explain(ticket), trouble)
        reason = place.result()
        if waits:
            log.info("has a slot of %s now (%s)", self.name, reason)

    async def _follow(self, source: SlotSource, settled_in: float) -> None:
        """Keep the capacity up to date until no task has come for a while."""
        await asyncio.sleep(settled_in)
        was_used = True
        while was_used or not self._pool.is_empty:
            was_used = not self._pool.is_empty
            try:
                slots, self._trouble = await source.read(self._pool.demand), ""
            except SparkOperationError as error:
                slots, self._trouble = ClusterSlots(0), str(error)
                if not error.restartable:
                    self._fail(error)
            except Exception as error:  # whatever it is, no one may wait forever
                self._fail(error)
                return
            self._set_slots(slots)
            await asyncio.sleep(_AGAIN_SECONDS if self._trouble or len(slots.demands) > 1 else _FOLLOW_SECONDS)
        with suppress(SparkOperationError):
            await source.leave()

    def _set_slots(self, slots: ClusterSlots) -> None:
        self._seen = slots
        self._divide()
        self._act(self._pool.set_capacity(slots.capacity, self._now()))

    def _divide(self) -> None:
        """What of the slots is for this queue: the others' demand as it was last seen, its own as it is now."""
        if len(self._seen.demands) > 1:
            asked = {**self._seen.demands, self._seen.me: self._pool.demand}
            share = divide_slots(self._seen.capacity, asked)[self._seen.me]
        else:
            share = None
        self._act(self._pool.set_share(share, self._now()))

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
        for old in [name for name, each in of_loop.items() if each.is_over]:
            del of_loop[old]  # runs with a server of their own come and go
        queue = of_loop[key] = SlotQueue(hook.server_name, _ServerSlots(hook, fixed))
    return queue


class _ServerSlots:
    """Asks the Spark server, which also holds the triggerers' notes to each other."""

    def __init__(self, hook: AdaptiveSparkHook, fixed: int | None) -> None:
        self._hook = hook
        self._fixed = fixed
        self._board = SlotBoard(f"{hook.server_name}/{fixed or 'all'}")
        self._endpoint: ConnectEndpoint | None = None

    async def read(self, demand: int) -> ClusterSlots:
        from airflow_abs.spark.connect.capacity import LEAST_PARALLELISM, describe_lack, read_capacity
        from airflow_abs.spark.connect.connection import open_connection

        self._endpoint = await self._hook.aget_endpoint()
        async with open_connection(self._endpoint) as connection:
            demands = await self._board.post(connection, demand)
            capacity = self._fixed or await read_capacity(connection, self._board.session_id)
            told = None if capacity > LEAST_PARALLELISM else await asyncio.to_thread(self._endpoint.executors)
            return ClusterSlots(capacity, self._board.me, demands, "" if told is None else describe_lack(told))

    async def leave(self) -> None:
        from airflow_abs.spark.connect.connection import open_connection

        if self._endpoint is not None:  # not looked up again: that would start a server that has ended
            async with open_connection(self._endpoint) as connection:
                await self._board.leave(connection)
