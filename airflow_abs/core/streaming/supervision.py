"""Supervises one streaming query: what was seen goes in, what is to be done comes out. No clock, no I/O.

The states are those of Flink's adaptive scheduler (`states.py`); one pipelined region is one query of Spark's, and its
savepoint is Spark's checkpoint, which is always there.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.slots.resource_wait import Resources, WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure
from airflow_abs.core.streaming.phases import RescaleOptions
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.state_events import (
    Action,
    Cancel,
    CancelExecution,
    CreateExecution,
    Event,
    ExecutionCreated,
    ExecutionEnded,
    ExecutionStatus,
    Fail,
    ResourcesChanged,
    Start,
    StateChanged,
    StopWithSavepoint,
    TimerFired,
    Trigger,
)
from airflow_abs.core.streaming.states import SchedulerStates, State, StateOptions
from airflow_abs.core.streaming.timers import StartTimer, TimerQueue
from airflow_abs.core.wording import format_count

_NEVER = 1e12
"""Seconds."""


@dataclass(frozen=True, slots=True)
class SlotsSeen:
    """How many tasks the cluster can run at once, busy or not; 0 if it does not answer. `lack` is why there is none."""

    slots: int
    lack: str = ""


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """The query runs: started now, or found running. `slots` that it was started for; 0 if unknown."""

    slots: int = 0


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """The query has ended, or could not start. Without a `failure` it was stopped, or is done."""

    failure: QueryFailure | None = None


@dataclass(frozen=True, slots=True)
class BatchBoundary:
    """A batch has ended since the last look, or none is running: a good moment for a restart."""


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """A user asked to stop it so that it can resume later."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A user asked to cancel it."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_at` is now."""


Seen = SlotsSeen | QueryStarted | QueryEnded | BatchBoundary | DrainAsked | CancelAsked | TimePassed


@dataclass(frozen=True, slots=True)
class StartQuery:
    """Start the query from its checkpoint for `slots`; the answer is `QueryStarted` or `QueryEnded`."""

    slots: int


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Stop the query, if it runs; the answer is `QueryEnded`."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Report a new state and its reason."""

    left: str
    entered: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing more to do: FINISHED, CANCELED or FAILED, and why."""

    status: str
    reason: str


Instruction = StartQuery | StopQuery | Tell | Ended


class StreamSupervisor:
    """One query's life.

    Args:
        judge: of failures.
        wanted: slots.
        ends: whether the query ends by itself, once it has read what is there (Spark's `availableNow`).
        wait: how long it waits for slots, in seconds.
        rescale: when it starts again because there are other slots; None: what runs keeps what it has found.
    """

    def __init__(
        self,
        judge: FailureJudge,
        wanted: SlotsWanted,
        *,
        ends: bool,
        wait: WaitOptions | None = None,
        rescale: Rescale | None = None,
    ) -> None:
        phases = RescaleOptions(cooldown=_NEVER) if rescale is None else rescale.phases
        self._states = SchedulerStates(StateOptions(wait or WaitOptions(), phases))
        self._judge = judge
        self._wanted = wanted
        self._ends = ends
        self._rescale = rescale
        self._timers = TimerQueue()
        self._slots: int | None = None
        self._running = 0
        self._is_rescaled = False
        self._given_up = ""
        self._lack = ""

    @property
    def state(self) -> State:
        return self._states.state

    @property
    def next_at(self) -> float | None:
        """When to say `TimePassed`, on the clock of `now`; None if nothing is waited for."""
        return self._timers.next_at

    def begin(self, now: float) -> list[Instruction]:
        """From here on slots are waited for."""
        return self._tell_states(Start(), now)

    def see(self, seen: Seen, now: float) -> list[Instruction]:
        """What is to be done, in order; nothing once it has ended."""
        match seen:
            case SlotsSeen(slots, lack):
                self._lack = lack
                done = self._see_slots(slots, now)
            case QueryStarted(slots):
                done = self._see_start(slots, now)
            case QueryEnded(failure):
                done = self._see_end(failure, now)
            case BatchBoundary():
                done = self._tell_states(Trigger(), now)
            case DrainAsked():
                done = self._drain(now)
            case CancelAsked():
                done = self._tell_states(Cancel(), now)
            case TimePassed():
                done = self._fire_timers(now)
        return done

    def _see_slots(self, slots: int, now: float) -> list[Instruction]:
        if slots == self._slots:
            return []
        self._slots = slots
        if self._rescale is None or self.state is not State.EXECUTING:
            return self._tell_states(ResourcesChanged(self._wanted.judge(slots)), now)
        worth = self._wanted.judge_change(self._running, slots, self._rescale.min_increase)
        return self._tell_states(ResourcesChanged(worth), now)

    def _see_start(self, slots: int, now: float) -> list[Instruction]:
        """One that was found running may run with other slots than there are by now."""
        self._running, seen, self._slots = slots, self._slots, None
        done = self._tell_states(ExecutionCreated(has_slots=True), now)
        return done if seen is None else done + self._see_slots(seen, now)

    def _see_end(self, failure: QueryFailure | None, now: float) -> list[Instruction]:
        match self.state:
            case State.CREATING_EXECUTION_GRAPH | State.EXECUTING:
                if failure is None and self._ends:
                    return self._tell_states(ExecutionEnded(ExecutionStatus.FINISHED), now)
                return self._fail(failure or QueryFailure("the query was stopped from outside"), now)
            case State.STOP_WITH_SAVEPOINT if failure is not None:
                return self._fail(failure, now)
        return self._tell_states(ExecutionEnded(ExecutionStatus.FINISHED), now)

    def _fail(self, failure: QueryFailure, now: float) -> list[Instruction]:
        verdict = self._judge.judge(failure, now)
        self._given_up = verdict.reason if verdict.backoff is None else ""
        # it may have failed with its server: slots are counted again before it restarts
        self._slots = None
        before = self._tell_states(ResourcesChanged(Resources.INSUFFICIENT), now)
        if self.state is State.CREATING_EXECUTION_GRAPH and verdict.backoff is not None:
            # a start that failed is a failure of what would run: the states restart only what was executing
            before += self._tell_states(ExecutionCreated(has_slots=True), now)
        return before + self._tell_states(Fail(verdict.reason, verdict.backoff), now)

    def _drain(self, now: float) -> list[Instruction]:
        if self.state is not State.EXECUTING:
            return self._tell_states(Cancel(), now)
        return [*self._tell_states(StopWithSavepoint(), now), StopQuery()]

    def _fire_timers(self, now: float) -> list[Instruction]:
        done: list[Instruction] = []
        while (timer := self._timers.pop_due(now)) is not None:
            done += self._tell_states(TimerFired(timer), now)
        return done

    def _tell_states(self, event: Event, now: float) -> list[Instruction]:
        done: list[Instruction] = []
        for action in self._states.handle(event, now):
            done += self._do(action, now)
        return done

    def _do(self, action: Action, now: float) -> list[Instruction]:
        match action:
            case StartTimer():
                self._timers.add(action)
                return []
            case StateChanged(left, entered, reason):
                told = Tell(left, entered, reason)
                self._is_rescaled = left == State.RESTARTING
                if self.state is not State.FINISHED:
                    return [told]
                return [told, Ended(self._states.job_status, self._given_up or reason)]
            case CreateExecution():
                return self._create(now)
            case CancelExecution():
                return [StopQuery()]

    def _create(self, now: float) -> list[Instruction]:
        slots = self._wanted.parallelism(self._slots or 0)
        if slots is not None:
            return [StartQuery(slots)]
        if self._is_rescaled:
            return self._tell_states(ExecutionCreated(has_slots=False), now)
        missing = f"fewer than {format_count(self._wanted.sufficient, 'slot')} until the resource timeout"
        if self._lack:
            missing += f": {self._lack}; give the server executors, or raise resource_timeout"
        return self._tell_states(Fail(missing), now)
