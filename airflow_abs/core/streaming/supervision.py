"""Supervises one streaming query: what was seen goes in, what is to be done comes out. No clock, no I/O.

The states are those of Flink's adaptive scheduler (`states.py`); one pipelined region is one query of Spark's, and its
savepoint is Spark's checkpoint, which is always there.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.slots.resource_wait import Resources, WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure
from airflow_abs.core.streaming.phases import RescaleOptions
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
)
from airflow_abs.core.streaming.states import SchedulerStates, State, StateOptions
from airflow_abs.core.streaming.timers import StartTimer, TimerQueue
from airflow_abs.core.wording import format_count

_NEVER = 1e12
"""Seconds."""


@dataclass(frozen=True, slots=True)
class SlotsSeen:
    """So many tasks the cluster could run at once, busy or not; 0 if nothing answers."""

    slots: int


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """It runs: started now, or found running."""


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """It does not run any more, or could not be started: without a `failure` it had nothing more to do, or was
    stopped."""

    failure: QueryFailure | None = None


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """Somebody wants it to stop, and to be able to go on later."""


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Somebody gives it up."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """`next_at` is now."""


Seen = SlotsSeen | QueryStarted | QueryEnded | DrainAsked | CancelAsked | TimePassed


@dataclass(frozen=True, slots=True)
class StartQuery:
    """Start it from its checkpoint; answer with `QueryStarted` or `QueryEnded`."""


@dataclass(frozen=True, slots=True)
class StopQuery:
    """Stop it, if it runs; answer with `QueryEnded`."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Another state, for this reason."""

    left: str
    entered: str
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """There is nothing more to do: FINISHED, CANCELED or FAILED, and why."""

    status: str
    reason: str


Instruction = StartQuery | StopQuery | Tell | Ended


@dataclass(frozen=True, slots=True)
class SlotsWanted:
    """With `desired` it starts at once; with at least `sufficient` once they are stable."""

    desired: int = 1
    sufficient: int = 1

    def __post_init__(self) -> None:
        check_int("sufficient", self.sufficient, at_least=1, at_most=self.desired)

    def judge(self, slots: int) -> Resources:
        if slots >= self.desired:
            return Resources.DESIRED
        return Resources.SUFFICIENT if slots >= self.sufficient else Resources.INSUFFICIENT


class StreamSupervisor:
    """One query's life.

    Args:
        judge: of failures.
        wanted: slots.
        ends: whether the query ends by itself, once it has read what is there (Spark's `availableNow`).
        wait: how long it waits for slots, in seconds.
    """

    def __init__(
        self, judge: FailureJudge, wanted: SlotsWanted, *, ends: bool, wait: WaitOptions | None = None
    ) -> None:
        # a running query keeps the slots that it finds: it is not rescaled
        options = StateOptions(wait or WaitOptions(), RescaleOptions(cooldown=_NEVER))
        self._states = SchedulerStates(options)
        self._judge = judge
        self._wanted = wanted
        self._ends = ends
        self._timers = TimerQueue()
        self._resources: Resources | None = None
        self._given_up = ""

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
            case SlotsSeen(slots):
                return self._see_slots(self._wanted.judge(slots), now)
            case QueryStarted():
                return self._tell_states(ExecutionCreated(has_slots=True), now)
            case QueryEnded(failure):
                return self._see_end(failure, now)
            case DrainAsked():
                return self._drain(now)
            case CancelAsked():
                return self._tell_states(Cancel(), now)
            case TimePassed():
                return self._fire_timers(now)

    def _see_slots(self, resources: Resources, now: float) -> list[Instruction]:
        if resources is self._resources:
            return []
        self._resources = resources
        return self._tell_states(ResourcesChanged(resources), now)

    def _see_end(self, failure: QueryFailure | None, now: float) -> list[Instruction]:
        match self.state:
            case State.CREATING_EXECUTION_GRAPH | State.EXECUTING:
                if failure is None and self._ends:
                    return self._tell_states(ExecutionEnded(ExecutionStatus.FINISHED), now)
                return self._fail(failure or QueryFailure("somebody else has stopped the query"), now)
            case State.STOP_WITH_SAVEPOINT if failure is not None:
                return self._fail(failure, now)
        return self._tell_states(ExecutionEnded(ExecutionStatus.FINISHED), now)

    def _fail(self, failure: QueryFailure, now: float) -> list[Instruction]:
        verdict = self._judge.judge(failure, now)
        self._given_up = verdict.reason if verdict.backoff is None else ""
        # it may have failed with its server: slots are counted anew before it starts again
        self._resources = None
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
                if self.state is not State.FINISHED:
                    return [told]
                return [told, Ended(self._states.job_status, self._given_up or reason)]
            case CreateExecution() if self._resources in (None, Resources.INSUFFICIENT):
                missing = f"fewer than {format_count(self._wanted.sufficient, 'slot')} until the resource timeout"
                return self._tell_states(Fail(missing), now)
            case CreateExecution():
                return [StartQuery()]
            case CancelExecution():
                return [StopQuery()]
