"""Who may run now: slots are distributed fairly between runs, and first come, first served inside each.

    enter ──► its run waits for resources ──► it waits for a slot ──► it holds one ──► leave
                   │                                                    ▲
                   │ no slot at all within the resource timeout         │
                   └──► it is refused              take_over ───────────┘

Events in, actions out; no clock. A run waits for resources once, before its first slot, by the rule of `ResourceWait`:
it begins at once if the cluster has the slots that it wants, with fewer after there were always some for a while. Then
its tickets wait only for slots that others use, however long that takes: that is no lack of resources. If the cluster
loses its last slot, every run waits for resources again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from airflow_abs.core.checks import check_int
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.resource_wait import Resources, ResourceWait, WaitOptions
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
class _RunQueue:
    """Tickets of one run, in the order in which they came.

    `wait` is its wait for resources, None once that is over; `reason` is then what ended it. `waiting` holds the slots
    that each ticket would like the cluster to have. With `enough` slots the run is content, whatever its tickets want.
    """

    run: str
    options: WaitOptions
    enough: int
    wait: ResourceWait | None = None
    reason: str = ""
    waiting: dict[int, int] = field(default_factory=dict)
    held: set[int] = field(default_factory=set)

    @property
    def wanted(self) -> int:
        """Slots that the cluster should have for this run."""
        return min(self.enough, max(self.waiting.values(), default=1))

    @property
    def head(self) -> int:
        """The ticket that has waited longest."""
        return next(iter(self.waiting))

    def judge(self, capacity: int) -> Resources:
        """What this many slots mean to this run."""
        if capacity >= self.wanted:
            return Resources.DESIRED
        return Resources.SUFFICIENT if capacity else Resources.INSUFFICIENT


class SlotPool:
    """Slots of one Spark cluster, `capacity` of them; 0 until told otherwise."""

    def __init__(self) -> None:
        self._tickets: Iterator[int] = count(1)
        self._queues: dict[str, _RunQueue] = {}
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
        """No slot is held or waited for."""
        return not self._run_of

    @property
    def next_timer_at(self) -> float | None:
        """When `tick` has to be called at the latest: when the first wait for resources ends if nothing changes."""
        ends = [queue.wait.next_look_at for queue in self._queues.values() if queue.wait is not None]
        return min((end for end in ends if end is not None), default=None)

    def enter(self, demand: SlotDemand, now: float) -> tuple[int, list[SlotAction]]:
        """Queue for a slot; the ticket, and what that sets free."""
        ticket, queue = self._add(demand, now)
        queue.waiting[ticket] = demand.wanted
        return ticket, self.tick(now)

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
        return self.tick(now)

    def set_capacity(self, slots: int, now: float) -> list[SlotAction]:
        """The cluster was checked again."""
        check_int("slots", slots, at_least=0)
        self.capacity = slots
        if not slots:
            for queue in self._queues.values():
                if queue.wait is None:
                    queue.wait = ResourceWait(queue.options, now)
        return self.tick(now)

    def set_share(self, slots: int | None, now: float) -> list[SlotAction]:
        """How much of the capacity this pool may hand out; other pools have the rest. None: all of it."""
        if slots is not None:
            check_int("slots", slots, at_least=0)
        self._share = slots
        return self.tick(now)

    def tick(self, now: float) -> list[SlotAction]:
        """Time has passed: end the waits that are over, then hand out slots, or refuse if there are none."""
        for queue in self._queues.values():
            if queue.wait is not None:
                reason = queue.wait.look(now, queue.judge(self.capacity))
                if reason is not None:
                    self._end_wait(queue, reason)
        return self._grant() if self.capacity else self._refuse()

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

    def _add(self, demand: SlotDemand, now: float) -> tuple[int, _RunQueue]:
        ticket = next(self._tickets)
        self._run_of[ticket] = demand.run
        is_new = demand.run not in self._queues
        # What a run went on with is enough for its next region too: it does not wait for more again.
        enough = self._went_on_with.get(demand.run, sys.maxsize)
        queue = self._queues.setdefault(demand.run, _RunQueue(demand.run, demand.options, enough))
        if is_new or (queue.wait is None and not self.capacity):
            queue.wait = ResourceWait(queue.options, now)
        return ticket, queue

    def _queue_of(self, ticket: int) -> _RunQueue:
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

    def _end_wait(self, queue: _RunQueue, reason: str) -> None:
        queue.wait, queue.reason = None, reason
        if self.capacity:
            self._went_on_with[queue.run] = self.capacity

    def _grant(self) -> list[SlotAction]:
        """Free slots go, one by one, to the run that holds fewest; of several to the one that has waited longest."""
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

    def _refuse(self) -> list[SlotAction]:
        """Whose wait is over although there is no slot at all."""
        refused: list[SlotAction] = []
        for queue in [queue for queue in self._queues.values() if queue.wait is None]:
            reason = f"no slot within {queue.options.resource_timeout:g} s, {queue.wanted} wanted"
            refused += [Refuse(ticket, reason) for ticket in queue.waiting]
        for refusal in refused:
            self._remove(refusal.ticket)
        return refused
