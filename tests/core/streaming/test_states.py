"""The states of a job: events and the expected actions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidStateError
from airflow_abs.core.slots.resource_wait import Resources, WaitOptions
from airflow_abs.core.streaming.phases import RescaleOptions
from airflow_abs.core.streaming.state_events import (
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
from airflow_abs.core.streaming.states import TRANSITIONS, SchedulerStates, State, StateOptions
from airflow_abs.core.streaming.timers import StartTimer, Timer

DESIRED, SUFFICIENT = Resources.DESIRED, Resources.SUFFICIENT


def executing(options: StateOptions | None = None) -> SchedulerStates:
    machine = SchedulerStates(options)
    machine.handle(Start(), 0)
    machine.handle(ResourcesChanged(DESIRED), 0)
    run_timers(machine, 0)
    if machine.state is State.WAITING_FOR_RESOURCES:
        machine.handle(ResourcesChanged(DESIRED), 0)
    machine.handle(ExecutionCreated(True), 0)
    assert machine.state is State.EXECUTING
    return machine


def run_timers(machine: SchedulerStates, now: float) -> None:
    """Hand back every timer that a version up to now could have asked for."""
    for version in range(machine.version + 3):
        for purpose in ("cooldown", "stabilization", "check", "backoff"):
            machine.handle(TimerFired(Timer(purpose, version)), now)


def test_a_job_goes_from_created_to_finished() -> None:
    machine = SchedulerStates()
    assert machine.job_status == "INITIALIZING"
    changed, timeout = machine.handle(Start(), 0)
    assert changed == StateChanged("Created", "WaitingForResources", "started")
    assert isinstance(timeout, StartTimer)
    assert timeout.at == 300
    assert machine.handle(ResourcesChanged(DESIRED), 1) == [
        StateChanged("WaitingForResources", "CreatingExecutionGraph", "desired resources are there"),
        CreateExecution(),
    ]
    changed, cooldown = machine.handle(ExecutionCreated(True), 2)
    assert changed == StateChanged("CreatingExecutionGraph", "Executing", "slots are assigned")
    assert isinstance(cooldown, StartTimer)
    assert machine.job_status == "RUNNING"
    assert machine.handle(ExecutionEnded(ExecutionStatus.FINISHED), 9) == [
        StateChanged("Executing", "Finished", "the execution has ended")
    ]
    assert machine.job_status == "FINISHED"
    assert machine.handle(Cancel(), 10) == []


def test_a_timer_of_a_state_that_was_left_does_nothing() -> None:
    machine = SchedulerStates()
    timeout = machine.handle(Start(), 0)[1]
    machine.handle(ResourcesChanged(DESIRED), 1)
    machine.handle(ExecutionCreated(False), 2)
    assert machine.state is State.CREATING_EXECUTION_GRAPH  # waited again, resources are still there
    machine.handle(ResourcesChanged(Resources.INSUFFICIENT), 3)
    machine.handle(ExecutionCreated(False), 3)
    assert machine.state is State.WAITING_FOR_RESOURCES
    assert isinstance(timeout, StartTimer)
    assert machine.handle(TimerFired(timeout.timer), 300) == []


def test_a_failure_restarts_after_the_backoff() -> None:
    machine = executing()
    assert machine.handle(Fail("lost executor", backoff=5), 10) == [
        StateChanged("Executing", "Restarting", "lost executor"),
        CancelExecution(),
    ]
    (wait,) = machine.handle(ExecutionEnded(ExecutionStatus.CANCELED), 12)
    assert wait == StartTimer(Timer("backoff", machine.version), 17)
    assert machine.handle(Fail("again", backoff=5), 13) == []
    assert machine.handle(TimerFired(wait.timer), 17)[0] == StateChanged(
        "Restarting", "WaitingForResources", "the backoff has passed"
    )


def test_a_failure_without_restart_fails_the_job() -> None:
    machine = executing()
    machine.handle(Fail("bad column"), 10)
    assert (machine.state, machine.job_status) == (State.FAILING, "FAILING")
    machine.handle(ExecutionEnded(ExecutionStatus.CANCELED), 11)
    assert machine.job_status == "FAILED"


def test_more_resources_rescale_with_those_at_hand() -> None:
    machine = executing(StateOptions(rescale=RescaleOptions(cooldown=0, stabilization=5)))
    run_timers(machine, 0)
    machine.handle(ResourcesChanged(SUFFICIENT), 10)
    machine.handle(ResourcesChanged(DESIRED), 11)
    assert machine.handle(Trigger(), 12) == [
        StateChanged("Executing", "Restarting", "desired resources are there"),
        CancelExecution(),
    ]
    machine.handle(ExecutionEnded(ExecutionStatus.CANCELED), 13)
    assert machine.handle(TimerFired(Timer("backoff", machine.version)), 13) == [
        StateChanged("Restarting", "CreatingExecutionGraph", "restart with the available resources"),
        CreateExecution(),
    ]


@pytest.mark.parametrize("state", [State.CREATED, State.WAITING_FOR_RESOURCES, State.CREATING_EXECUTION_GRAPH])
def test_without_an_execution_a_job_ends_at_once(state: State) -> None:
    for event, status in ((Cancel(), "CANCELED"), (Fail("x", backoff=1), "FAILED")):
        machine = SchedulerStates(state=state)
        machine.handle(event, 0)
        assert (machine.state, machine.job_status) == (State.FINISHED, status)


@pytest.mark.parametrize("state", [State.EXECUTING, State.STOP_WITH_SAVEPOINT, State.RESTARTING, State.FAILING])
def test_with_an_execution_a_cancel_waits_for_its_end(state: State) -> None:
    machine = SchedulerStates(state=state)
    assert machine.handle(Cancel(), 0) == [StateChanged(state, "Canceling", "canceled"), CancelExecution()]
    assert machine.handle(Cancel(), 1) == []
    machine.handle(ExecutionEnded(ExecutionStatus.FINISHED), 2)
    assert machine.job_status == "CANCELED"


def test_a_job_that_was_asked_to_stop_ends_with_its_execution() -> None:
    machine = executing()
    assert machine.handle(StopWithSavepoint(), 1) == [StateChanged("Executing", "StopWithSavepoint", "asked to stop")]
    machine.handle(ExecutionEnded(ExecutionStatus.FINISHED), 2)
    assert (machine.state, machine.job_status) == (State.FINISHED, "FINISHED")


def test_events_without_meaning_change_nothing() -> None:
    machine = SchedulerStates(state=State.EXECUTING)
    for event in (Start(), Trigger(), TimerFired(Timer("check", 1)), ResourcesChanged(DESIRED)):
        assert machine.handle(event, 0) == []
    assert SchedulerStates().handle(ExecutionEnded(ExecutionStatus.FAILED), 0) == []


def test_a_transition_that_is_not_drawn_is_an_error() -> None:
    with pytest.raises(InvalidStateError, match=r"expected one of .* after Canceling, found Executing"):
        SchedulerStates(state=State.CANCELING)._enter(State.EXECUTING, "x")


EVENTS: list[Event] = [
    Start(),
    Cancel(),
    Fail("x"),
    Fail("x", backoff=3),
    Trigger(),
    StopWithSavepoint(),
    ExecutionCreated(True),
    ExecutionCreated(False),
    ExecutionEnded(ExecutionStatus.FINISHED),
    ExecutionEnded(ExecutionStatus.CANCELED),
    *(ResourcesChanged(resources) for resources in Resources),
]


@given(
    st.lists(st.tuples(st.one_of(st.sampled_from(EVENTS), st.integers(0, 9)), st.integers(0, 40)), max_size=60),
)
def test_only_drawn_transitions_happen_and_finished_is_never_left(
    script: list[tuple[Event | int, int]],
) -> None:
    machine = SchedulerStates(StateOptions(WaitOptions(60, 5), RescaleOptions(3, 5, 2)))
    timers: list[StartTimer] = []
    now = 0.0
    for what, seconds in script:
        now += seconds
        before, version = machine.state, machine.version
        if isinstance(what, int):
            if not timers:
                continue
            event: Event = TimerFired(timers[what % len(timers)].timer)  # in any order, old ones too
        else:
            event = what
        actions = machine.handle(event, now)
        timers += [action for action in actions if isinstance(action, StartTimer)]
        path = [action for action in actions if isinstance(action, StateChanged)]
        for change in path:
            assert change.left == before
            assert change.entered in TRANSITIONS[before]
            before = State(change.entered)
        assert before is machine.state
        assert (machine.version != version) == bool(path)
