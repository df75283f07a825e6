"""The adaptive scheduler's states (FLIP-160): events in, actions out. No clock, no I/O.

Every state has a version; a timer carries the version of the state that asked for it and does nothing once that state
was left. `FINISHED` is never left.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count

from airflow_abs.core.errors import InvalidStateError
from airflow_abs.core.slots.resource_wait import Resources, ResourceWait, WaitOptions
from airflow_abs.core.streaming.phases import PhaseAction, RescaleOptions, RescalePhases
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
from airflow_abs.core.streaming.timers import StartTimer, Timer


class State(StrEnum):
    """State of one job."""

    CREATED = "Created"
    WAITING_FOR_RESOURCES = "WaitingForResources"
    CREATING_EXECUTION_GRAPH = "CreatingExecutionGraph"
    EXECUTING = "Executing"
    STOP_WITH_SAVEPOINT = "StopWithSavepoint"
    RESTARTING = "Restarting"
    CANCELING = "Canceling"
    FAILING = "Failing"
    FINISHED = "Finished"


S = State
TRANSITIONS: dict[State, tuple[State, ...]] = {
    S.CREATED: (S.WAITING_FOR_RESOURCES, S.FINISHED),
    S.WAITING_FOR_RESOURCES: (S.CREATING_EXECUTION_GRAPH, S.FINISHED),
    S.CREATING_EXECUTION_GRAPH: (S.EXECUTING, S.WAITING_FOR_RESOURCES, S.FINISHED),
    S.EXECUTING: (S.CANCELING, S.FAILING, S.RESTARTING, S.STOP_WITH_SAVEPOINT, S.FINISHED),
    S.STOP_WITH_SAVEPOINT: (S.EXECUTING, S.CANCELING, S.FAILING, S.RESTARTING, S.FINISHED),
    S.RESTARTING: (S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH, S.CANCELING, S.FINISHED),
    S.CANCELING: (S.FINISHED,),
    S.FAILING: (S.CANCELING, S.FINISHED),
    S.FINISHED: (),
}
"""Flink's table. Two of its transitions are never taken here: nothing suspends a restarting job (`RESTARTING` to
`FINISHED`), and a stop always keeps what was reached, as each batch does (`STOP_WITH_SAVEPOINT` to `EXECUTING`)."""

_STATUS_OF_STATE = {
    S.CREATED: "INITIALIZING",
    S.WAITING_FOR_RESOURCES: "CREATED",
    S.CREATING_EXECUTION_GRAPH: "CREATED",
    S.EXECUTING: "RUNNING",
    S.STOP_WITH_SAVEPOINT: "RUNNING",
    S.RESTARTING: "RESTARTING",
    S.CANCELING: "CANCELLING",
    S.FAILING: "FAILING",
}
_WITHOUT_EXECUTION = (S.CREATED, S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH)
_RUNNING = (S.EXECUTING, S.STOP_WITH_SAVEPOINT)


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Durations."""

    wait: WaitOptions = field(default_factory=WaitOptions)
    rescale: RescaleOptions = field(default_factory=RescaleOptions)


class SchedulerStates:
    """One job's state. `handle` takes an event and returns what is to be done, in order.

    Args:
        options: durations.
        state: where to begin; another one than `CREATED` when a stored job is taken up again.
    """

    def __init__(self, options: StateOptions | None = None, state: State = State.CREATED) -> None:
        self._options = options or StateOptions()
        self._versions = count(1)
        self._version = next(self._versions)
        self._wait: ResourceWait | None = None
        self._phases: RescalePhases | None = None
        self._resources = Resources.INSUFFICIENT
        self._backoff = 0.0
        self._keep_resources = False
        self._final_status = "FINISHED"
        self.state = state

    @property
    def version(self) -> int:
        """Changes with every change of state."""
        return self._version

    @property
    def may_go_to(self) -> tuple[State, ...]:
        """The states that may follow."""
        return TRANSITIONS[self.state]

    @property
    def job_status(self) -> str:
        """What the outside calls the state; in `FINISHED`, how it ended."""
        return _STATUS_OF_STATE.get(self.state, self._final_status)

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take an event. Events that mean nothing in the present state give no actions."""
        actions: list[Action] = []
        match event:
            case _ if self.state is State.FINISHED:
                pass
            case Cancel():
                actions = self._cancel()
            case Fail():
                actions = self._fail(event)
            case ExecutionEnded(status):
                actions = self._execution_ended(status, now)
            case ResourcesChanged(resources):
                self._resources = resources
                actions = self._look_at_resources(now)
            case TimerFired(timer):
                actions = self._timer_fired(timer, now)
            case _:
                actions = self._progress(event, now)
        return actions

    def _progress(self, event: Event, now: float) -> list[Action]:
        """Events that belong to one state only."""
        actions: list[Action] = []
        match self.state, event:
            case State.CREATED, Start():
                actions = self._wait_for_resources("started", now)
            case State.CREATING_EXECUTION_GRAPH, ExecutionCreated(True):
                actions = self._execute("slots are assigned", now)
            case State.CREATING_EXECUTION_GRAPH, ExecutionCreated(False):
                actions = self._wait_for_resources("slots were lost meanwhile", now)
            case State.EXECUTING, StopWithSavepoint():
                actions = self._enter(State.STOP_WITH_SAVEPOINT, "asked to stop")
            case State.EXECUTING, Trigger() if self._phases:
                actions = self._after(self._phases.on_trigger(self._resources))
        return actions

    def _cancel(self) -> list[Action]:
        if self.state in _WITHOUT_EXECUTION:
            return self._finish("CANCELED", "canceled")
        if self.state is State.CANCELING:
            return []
        return [*self._enter(State.CANCELING, "canceled"), CancelExecution()]

    def _fail(self, event: Fail) -> list[Action]:
        if self.state in _WITHOUT_EXECUTION:
            return self._finish("FAILED", event.reason)
        if self.state not in _RUNNING:
            return []  # it is being stopped already
        if event.backoff is None:
            return [*self._enter(State.FAILING, event.reason), CancelExecution()]
        return self._restart(event.reason, event.backoff, keep_resources=False)

    def _execution_ended(self, status: ExecutionStatus, now: float) -> list[Action]:
        match self.state:
            case State.EXECUTING | State.STOP_WITH_SAVEPOINT:
                return self._finish(status.value, "the execution has ended")
            case State.CANCELING:
                return self._finish("CANCELED", "the execution has stopped")
            case State.FAILING:
                return self._finish("FAILED", "the execution has stopped")
            case State.RESTARTING:
                return [StartTimer(Timer("backoff", self._version), now + self._backoff)]
        return []

    def _look_at_resources(self, now: float) -> list[Action]:
        if self._wait:
            return self._look_at_wait(self._wait, now)
        if self._phases:
            return self._after(self._phases.on_change(now, self._resources))
        return []

    def _timer_fired(self, timer: Timer, now: float) -> list[Action]:
        if self._wait:
            return self._look_at_wait(self._wait, now) if timer == Timer("resources", self._version) else []
        if self._phases:
            return self._after(self._phases.on_timer(timer, now, self._resources))
        if timer != Timer("backoff", self._version):
            return []
        if self._keep_resources:
            return self._create_execution("restart with the available resources")
        return self._wait_for_resources("the backoff has passed", now)

    def _look_at_wait(self, wait: ResourceWait, now: float) -> list[Action]:
        reason = wait.look(now, self._resources)
        if reason is not None:
            return self._create_execution(reason)
        at = wait.next_look_at
        return [] if at is None else [StartTimer(Timer("resources", self._version), at)]

    def _after(self, actions: list[PhaseAction]) -> list[Action]:
        done: list[Action] = []
        for action in actions:
            if isinstance(action, StartTimer):
                done.append(action)
            else:
                done.extend(self._restart(action.reason, 0.0, keep_resources=True))
        return done

    def _wait_for_resources(self, reason: str, now: float) -> list[Action]:
        changed = self._enter(State.WAITING_FOR_RESOURCES, reason)
        self._wait = ResourceWait(self._options.wait, now)
        return [*changed, *self._look_at_wait(self._wait, now)]

    def _execute(self, reason: str, now: float) -> list[Action]:
        changed = self._enter(State.EXECUTING, reason)
        self._phases = RescalePhases(self._options.rescale, now, self._versions)
        return [*changed, *self._after(self._phases.start())]

    def _create_execution(self, reason: str) -> list[Action]:
        return [*self._enter(State.CREATING_EXECUTION_GRAPH, reason), CreateExecution()]

    def _restart(self, reason: str, backoff: float, *, keep_resources: bool) -> list[Action]:
        self._backoff, self._keep_resources = backoff, keep_resources
        return [*self._enter(State.RESTARTING, reason), CancelExecution()]

    def _finish(self, status: str, reason: str) -> list[Action]:
        self._final_status = status
        return self._enter(State.FINISHED, reason)

    def _enter(self, state: State, reason: str) -> list[Action]:
        if state not in self.may_go_to:
            raise InvalidStateError(f"expected one of {[*self.may_go_to]} after {self.state}, found {state}")
        left, self.state = self.state, state
        self._wait = self._phases = None
        self._version = next(self._versions)
        return [StateChanged(left, state, reason)]
