"""Every event in every state, from the text of FLIP-160: cases that Flink's own tests, our vectors, do not have."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from airflow_abs.core.slots.resource_wait import Resources, WaitOptions
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
    Trigger,
)
from airflow_abs.core.streaming.states import SchedulerStates, State, StateOptions
from airflow_abs.core.streaming.timers import StartTimer

S = State
OPTIONS = StateOptions(WaitOptions(resource_timeout=300, stabilization=10), RescaleOptions(30, 60, 5))
DESIRED, SUFFICIENT, INSUFFICIENT = (
    ResourcesChanged(each) for each in (Resources.DESIRED, Resources.SUFFICIENT, Resources.INSUFFICIENT)
)
ENDED = ExecutionEnded(ExecutionStatus.CANCELED)
EVENTS: dict[str, Event] = {
    "start": Start(),
    "cancel": Cancel(),
    "fail": Fail("x"),
    "fail, may restart": Fail("x", backoff=7),
    "desired": DESIRED,
    "sufficient": SUFFICIENT,
    "insufficient": INSUFFICIENT,
    "created": ExecutionCreated(True),
    "not created": ExecutionCreated(False),
    "finished": ExecutionEnded(ExecutionStatus.FINISHED),
    "canceled": ENDED,
    "failed": ExecutionEnded(ExecutionStatus.FAILED),
    "stop": StopWithSavepoint(),
    "trigger": Trigger(),
}
WAY: dict[State, Sequence[Event]] = {
    S.CREATED: (),
    S.WAITING_FOR_RESOURCES: (Start(),),
    S.CREATING_EXECUTION_GRAPH: (Start(), DESIRED, INSUFFICIENT),
    S.EXECUTING: (Start(), DESIRED, ExecutionCreated(True)),
    S.STOP_WITH_SAVEPOINT: (Start(), DESIRED, ExecutionCreated(True), StopWithSavepoint()),
    S.RESTARTING: (Start(), DESIRED, ExecutionCreated(True), Fail("x", backoff=7)),
    S.CANCELING: (Start(), DESIRED, ExecutionCreated(True), Cancel()),
    S.FAILING: (Start(), DESIRED, ExecutionCreated(True), Fail("x")),
    S.FINISHED: (Cancel(),),
}
_OVER = {"cancel": "CANCELED", "fail": "FAILED", "fail, may restart": "FAILED"}
_BY_ITSELF = {"finished": "FINISHED", "canceled": "CANCELED", "failed": "FAILED"}
RULES: dict[State, dict[str, State | str]] = {
    # a state, or how the job ended; an event that is not named changes nothing
    S.CREATED: {"start": S.WAITING_FOR_RESOURCES, **_OVER},
    S.WAITING_FOR_RESOURCES: {"desired": S.CREATING_EXECUTION_GRAPH, **_OVER},
    S.CREATING_EXECUTION_GRAPH: {"created": S.EXECUTING, "not created": S.WAITING_FOR_RESOURCES, **_OVER},
    S.EXECUTING: {
        "cancel": S.CANCELING,
        "fail": S.FAILING,
        "fail, may restart": S.RESTARTING,
        "stop": S.STOP_WITH_SAVEPOINT,
        **_BY_ITSELF,
    },
    S.STOP_WITH_SAVEPOINT: {
        "cancel": S.CANCELING,
        "fail": S.FAILING,
        "fail, may restart": S.RESTARTING,
        **_BY_ITSELF,
    },
    S.RESTARTING: {"cancel": S.CANCELING},
    S.CANCELING: {**dict.fromkeys(_BY_ITSELF, "CANCELED")},
    S.FAILING: {"cancel": S.CANCELING, **dict.fromkeys(_BY_ITSELF, "FAILED")},
    S.FINISHED: {},
}


def in_state(state: State) -> SchedulerStates:
    machine = SchedulerStates(OPTIONS)
    for event in WAY[state]:
        machine.handle(event, 0)
    assert machine.state is state
    return machine


def timers(actions: Sequence[Action], purpose: str) -> list[StartTimer]:
    return [each for each in actions if isinstance(each, StartTimer) and each.timer.purpose == purpose]


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("state", State)
def test_an_event_leads_to_the_state_that_is_drawn_or_to_none(state: State, name: str) -> None:
    machine = in_state(state)
    status = machine.job_status
    actions = machine.handle(EVENTS[name], 1)
    expected = RULES[state].get(name)
    changes = [(each.left, each.entered) for each in actions if isinstance(each, StateChanged)]
    match expected:
        case None:
            assert (machine.state, machine.job_status, changes) == (state, status, [])
            assert not any(isinstance(each, (CancelExecution, CreateExecution)) for each in actions)
        case State():
            assert (machine.state, changes) == (expected, [(state, expected)])
        case _:
            assert (machine.state, machine.job_status, changes) == (
                S.FINISHED,
                expected,
                [(state, S.FINISHED)],
            )


@pytest.mark.parametrize("state", [S.EXECUTING, S.STOP_WITH_SAVEPOINT, S.RESTARTING, S.FAILING])
def test_what_runs_is_stopped_on_the_way_to_canceling_and_nothing_else_is_asked(state: State) -> None:
    assert in_state(state).handle(Cancel(), 1)[1:] == [CancelExecution()]


@pytest.mark.parametrize("state", [S.EXECUTING, S.STOP_WITH_SAVEPOINT])
@pytest.mark.parametrize("event", [Fail("x"), Fail("x", backoff=7)])
def test_what_runs_is_stopped_after_a_failure(state: State, event: Event) -> None:
    assert in_state(state).handle(event, 1)[1:] == [CancelExecution()]


def test_resources_that_are_lost_while_it_waits_begin_the_stabilization_anew() -> None:
    machine = in_state(S.WAITING_FOR_RESOURCES)
    (first,) = timers(machine.handle(SUFFICIENT, 1), "resources")
    assert first.at == 11
    machine.handle(INSUFFICIENT, 5)
    assert timers(machine.handle(SUFFICIENT, 8), "resources")[0].at == 18
    assert machine.handle(TimerFired(first.timer), 11) == timers(machine.handle(SUFFICIENT, 11), "resources")
    assert machine.state is S.WAITING_FOR_RESOURCES
    machine.handle(TimerFired(first.timer), 18)
    assert machine.state is S.CREATING_EXECUTION_GRAPH


def test_the_resource_timeout_goes_on_with_what_is_there_and_begins_anew_when_that_was_not_enough() -> None:
    machine = SchedulerStates(OPTIONS)
    (timeout,) = timers(machine.handle(Start(), 0), "resources")
    assert timeout.at == 300
    assert machine.handle(TimerFired(timeout.timer), 300)[-1] == CreateExecution()
    (again,) = timers(machine.handle(ExecutionCreated(False), 301), "resources")
    assert (machine.state, again.at) == (S.WAITING_FOR_RESOURCES, 601)
    assert machine.handle(TimerFired(timeout.timer), 601) == []


def test_a_negative_resource_timeout_is_none() -> None:
    machine = SchedulerStates(StateOptions(WaitOptions(resource_timeout=-1, stabilization=10)))
    assert timers(machine.handle(Start(), 0), "resources") == []


def test_the_backoff_is_counted_from_the_end_of_what_ran_and_resources_are_waited_for_after_it() -> None:
    machine = in_state(S.RESTARTING)
    (backoff,) = timers(machine.handle(ENDED, 20), "backoff")
    assert backoff.at == 27
    assert machine.handle(DESIRED, 21) == []  # not before the backoff has passed
    entered = [each.entered for each in machine.handle(TimerFired(backoff.timer), 27) if isinstance(each, StateChanged)]
    assert entered == [S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH]


def test_a_job_that_is_canceled_in_its_backoff_does_not_start_again() -> None:
    machine = in_state(S.RESTARTING)
    (backoff,) = timers(machine.handle(ENDED, 20), "backoff")
    machine.handle(Cancel(), 21)
    assert machine.handle(TimerFired(backoff.timer), 27) == []
    machine.handle(ENDED, 28)
    assert machine.job_status == "CANCELED"


def test_a_failure_while_it_is_stopped_for_a_rescale_changes_neither_its_reason_nor_its_wait() -> None:
    machine = in_state(S.EXECUTING)
    machine.handle(TimerFired(timers(machine._after(machine._phases.start()), "cooldown")[0].timer), 30)  # type: ignore[union-attr]
    machine.handle(DESIRED, 31)
    assert machine.handle(Trigger(), 32)[-1] == CancelExecution()
    assert machine.handle(Fail("x", backoff=7), 33) == machine.handle(Fail("x"), 33) == []
    (backoff,) = timers(machine.handle(ExecutionEnded(ExecutionStatus.FAILED), 34), "backoff")
    assert backoff.at == 34
    assert machine.handle(TimerFired(backoff.timer), 34)[-1] == CreateExecution()
    machine.handle(INSUFFICIENT, 34)  # they have gone meanwhile
    machine.handle(ExecutionCreated(False), 35)
    assert machine.state is S.WAITING_FOR_RESOURCES


def test_slots_that_change_while_it_stops_start_nothing() -> None:
    machine = in_state(S.STOP_WITH_SAVEPOINT)
    assert machine.handle(DESIRED, 40) == machine.handle(Trigger(), 41) == []
