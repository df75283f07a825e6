"""Who may run now: slots are dealt out fairly between runs, and first come, first served inside each.

Events in, actions out; no clock. A run that comes waits for resources by the rule of `resource_wait`: it begins at once
if the cluster has the slots that it wants, with fewer after those have been stable for a while, and without any it is
refused after the resource timeout. That slots are in use by others is no lack of resources: the timeout counts only
while the cluster has none at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

from airflow_abs.core.checks import check_int
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.phases import PhaseAction, Resources
from airflow_abs.core.slots.resource_wait import PhasedWait, ResourceWait, WaitOptions
from airflow_abs.core.slots.timers import StartTimer, TimerQueue
from airflow_abs.core.wording import format_count


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """One slot for one piece of work of a run; runs share fairly.

    `wanted` is how many slots the run would like the cluster to have, at least 1; `options` say how long to wait for
    them (those of a run's first demand hold).
    """

    run: str
    wanted: int
    options: WaitOptions

    def __post_init__(self) -> None:
        check_int("wanted", self.wanted, at_least=1)


@dataclass(frozen=True, slots=True)
class Grant:
    """Action: this ticket has a slot now; `reason` is what ended its run's wait for resources."""

    ticket: int
    reason: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """Action: the resource timeout has passed without any slot; the ticket is out of the pool."""

    ticket: int
    reason: str


SlotAction = Grant | Refuse


@dataclass(slots=True)
class _Queue:
    """Tickets of one run, in the order in which they came. `wait` is None once the run may have slots."""

    run: str
    options: WaitOptions
    enough: int
    wait: ResourceWait | None = None
    reason: str = ""
    waiting: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    @property
    def wanted(self) -> int:
        return min(self.enough, max(self.waiting.values(), default=1))

    @property
    def head(self) -> int:
        return next(iter(self.waiting))


class SlotPool:
    """Slots of one Spark cluster, `capacity` of them; 0 until told otherwise.

    Args:
        make_wait: the rule of waiting for resources.
    """

    def __init__(self, make_wait: Callable[..., ResourceWait] = PhasedWait) -> None:
        self._make_wait = make_wait
        self._versions: Iterator[int] = count(1)
        self._tickets: Iterator[int] = count(1)
        self._timers = TimerQueue()
        self._queues: dict[str, _Queue] = {}
        self._run_of: dict[int, str] = {}
        self._went_on_with: dict[str, int] = {}
        self._share: int | None = None
        self.capacity = 0

    @property
    def in_use(self) -> int:
        """Slots held now. More than the capacity if that has shrunk, or if what already ran was taken over."""
        return sum(len(queue.held) for queue in self._queues.values())

    @property
    def waiting(self) -> int:
        """Tickets without a slot."""
        return sum(len(queue.waiting) for queue in self._queues.values())

    @property
    def demand(self) -> int:
        """Slots that are held or waited for."""
        return len(self._run_of)

    @property
    def is_empty(self) -> bool:
        """Nobody holds a slot or waits for one."""
        return not self._run_of

    @property
    def next_timer_at(self) -> float | None:
        """When `tick` has to be called at the latest."""
        return self._timers.next_at

    def enter(self, demand: SlotDemand, now: float) -> tuple[int, list[SlotAction]]:
        """Queue for a slot; the ticket, and what that sets free."""
        ticket, queue = self._add(demand, now)
        queue.waiting[ticket] = demand.wanted
        return ticket, self._look(now)

    def take_over(self, demand: SlotDemand, now: float) -> int:
        """A slot for what runs on the cluster already, also beyond the capacity."""
        ticket, queue = self._add(demand, now)
        queue.held.add(ticket)
        return ticket

    def leave(self, ticket: int, now: float) -> list[SlotAction]:
        """Give a slot back, or stop waiting for one.

        Raises:
            InvalidValueError: the ticket is not in the pool.
        """
        self._queue_of(ticket)
        self._remove(ticket)
        return self._look(now)

    def set_capacity(self, slots: int, now: float) -> list[SlotAction]:
        """The cluster was looked at anew."""
        check_int("slots", slots, at_least=0)
        self.capacity = slots
        if not slots:
            for queue in self._queues.values():
                if queue.wait is None:
                    self._begin_to_wait(queue, now)
        return self._look(now)

    def set_share(self, slots: int | None, now: float) -> list[SlotAction]:
        """So many of the capacity are this pool's to deal out, other pools have the rest; None: all of it."""
        if slots is not None:
            check_int("slots", slots, at_least=0)
        self._share = slots
        return self._look(now)

    def explain(self, ticket: int) -> str:
        """What a ticket without a slot waits for.

        Raises:
            InvalidValueError: the ticket is not in the pool.
        """
        queue = self._queue_of(ticket)
        if not self.capacity:
            return f"the cluster has no slot, {queue.wanted} wanted"
        if queue.wait is not None:
            return f"the cluster has {format_count(self.capacity, 'slot')}, {queue.wanted} wanted"
        before = sum(each < ticket for each in queue.waiting)
        used = f"{self.in_use} of {format_count(self.capacity, 'slot')} in use, {len(queue.held)} by this run"
        if self._share is not None:
            used = f"{used}, {self._share} are for this triggerer"
        return f"{used}; {before} of this run before it"

    def tick(self, now: float) -> list[SlotAction]:
        """Time has passed."""
        return self._after_timers(now)

    def _add(self, demand: SlotDemand, now: float) -> tuple[int, _Queue]:
        ticket = next(self._tickets)
        self._run_of[ticket] = demand.run
        is_new = demand.run not in self._queues
        # What a run went on with is enough for its next region too: it does not wait for more again.
        enough = self._went_on_with.get(demand.run, sys.maxsize)
        queue = self._queues.setdefault(demand.run, _Queue(demand.run, demand.options, enough))
        if is_new or (queue.wait is None and not self.capacity):
            self._begin_to_wait(queue, now)
        return ticket, queue

    def _queue_of(self, ticket: int) -> _Queue:
        if ticket not in self._run_of:
            raise InvalidValueError(f"ticket {ticket}: expected one that is in the pool, found none")
        return self._queues[self._run_of[ticket]]

    def _remove(self, ticket: int) -> None:
        run = self._run_of.pop(ticket)
        queue = self._queues[run]
        queue.waiting.pop(ticket, None)
        queue.held.discard(ticket)
        if not queue.waiting and not queue.held:
            del self._queues[run]

    def _begin_to_wait(self, queue: _Queue, now: float) -> None:
        queue.wait = self._make_wait(queue.options, now, self._versions)
        self._note(queue, queue.wait.start())

    def _look(self, now: float) -> list[SlotAction]:
        for queue in self._queues.values():
            if queue.wait is not None:
                self._note(queue, queue.wait.on_resources(now, self._resources(queue)))
        return self._after_timers(now)

    def _after_timers(self, now: float) -> list[SlotAction]:
        while (timer := self._timers.pop_due(now)) is not None:
            for queue in self._queues.values():
                if queue.wait is not None:
                    self._note(queue, queue.wait.on_timer(timer, now, self._resources(queue)))
        return self._grant() if self.capacity else self._refuse()

    def _note(self, queue: _Queue, actions: list[PhaseAction]) -> None:
        for action in actions:
            if isinstance(action, StartTimer):
                self._timers.add(action)
            else:
                queue.wait, queue.reason = None, action.reason
                if self.capacity:
                    self._went_on_with[queue.run] = self.capacity

    def _resources(self, queue: _Queue) -> Resources:
        if self.capacity >= queue.wanted:
            return Resources.DESIRED
        return Resources.SUFFICIENT if self.capacity else Resources.INSUFFICIENT

    def _refuse(self) -> list[SlotAction]:
        """Whose wait is over although there is no slot at all."""
        refused: list[SlotAction] = []
        for queue in [queue for queue in self._queues.values() if queue.wait is None]:
            reason = f"no slot within {queue.options.resource_timeout:g} s, {queue.wanted} wanted"
            refused += [Refuse(ticket, reason) for ticket in queue.waiting]
        for refusal in refused:
            self._remove(refusal.ticket)
        return refused

    def _grant(self) -> list[SlotAction]:
        granted: list[SlotAction] = []
        for _ in range((self.capacity if self._share is None else self._share) - self.in_use):
            queues = [queue for queue in self._queues.values() if queue.wait is None and queue.waiting]
            if not queues:
                break
            queue = min(queues, key=lambda each: (len(each.held), each.head))
            ticket = queue.head
            del queue.waiting[ticket]
            queue.held.add(ticket)
            granted.append(Grant(ticket, queue.reason))
        return granted
