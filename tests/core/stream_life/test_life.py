"""What is remembered of a stream stays small, and says how often it was started again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.stream_life.lag import LagFell, LagGrows
from airflow_abs.core.stream_life.life import (
    KEPT_BATCHES,
    KEPT_CHANGES,
    KEPT_NOTES,
    KEPT_TEXT,
    Batch,
    Note,
    StateChange,
    StreamLife,
)
from airflow_abs.core.streaming.states import TRANSITIONS, State


def change(left: State, entered: State, at: float = 1.0, reason: str = "why") -> StateChange:
    return StateChange(at, left, entered, reason)


def test_a_restart_waits_for_slots_again_and_a_rescale_has_them() -> None:
    life = StreamLife()
    assert life.state == "Created"
    for following in (State.WAITING_FOR_RESOURCES, State.CREATING_EXECUTION_GRAPH, State.WAITING_FOR_RESOURCES):
        life = life.with_change(change(State.EXECUTING, State.RESTARTING))
        life = life.with_change(change(State.RESTARTING, following))
    assert (life.restarts, life.rescales, life.state) == (2, 1, "WaitingForResources")


@given(st.lists(st.sampled_from([(left, to) for left in State for to in TRANSITIONS[left]]), max_size=300))
def test_every_restart_is_counted_also_when_its_change_is_forgotten(steps: list[tuple[State, State]]) -> None:
    life = StreamLife()
    for left, entered in steps:
        life = life.with_change(change(left, entered))
    assert life.restarts == steps.count((State.RESTARTING, State.WAITING_FOR_RESOURCES))
    assert life.rescales == steps.count((State.RESTARTING, State.CREATING_EXECUTION_GRAPH))
    assert [(each.left, each.entered) for each in life.changes] == steps[-KEPT_CHANGES:]


def test_only_the_last_are_kept_and_long_reasons_are_cut() -> None:
    life = StreamLife()
    for number in range(300):
        life = life.with_change(change(State.CREATED, State.FINISHED, number, "x" * 5000))
        life = life.with_note(Note(number, "y" * 5000)).with_batch(Batch(number, number, 0.5, 1))
    assert [each.at for each in life.changes] == [*range(300 - KEPT_CHANGES, 300)]
    assert [each.at for each in life.notes] == [*range(300 - KEPT_NOTES, 300)]
    assert [each.number for each in life.batches] == [*range(300 - KEPT_BATCHES, 300)]
    assert life.changes[-1].reason == "x" * (KEPT_TEXT - 1) + "…"
    assert {len(each.text) for each in life.notes} == {KEPT_TEXT}


def test_a_batch_that_is_told_again_is_known_and_one_of_a_new_checkpoint_is_not() -> None:
    life = StreamLife().with_batch(Batch(7, 100.0, 1.0, 10))
    assert life.has(Batch(7, 100.0, 1.0, 10))
    assert life.has(Batch(6, 90.0, 1.0, 10))
    assert not life.has(Batch(0, 101.0, 1.0, 10))


def test_rates_are_those_while_the_batch_was_done() -> None:
    batch = Batch(1, 10.0, 2.0, rows_in=100, rows_out=30)
    assert (batch.rows_in_per_second, batch.rows_out_per_second) == (50.0, 15.0)
    assert Batch(1, 10.0, 2.0, 100).rows_out_per_second is None


def test_an_alarm_is_a_note_and_stands_until_it_is_over() -> None:
    grows = LagGrows(10, 1.0, 60.0)
    life = StreamLife().with_alarm(grows, 5.0)
    assert (life.alarm, life.notes) == (str(grows), (Note(5.0, str(grows)),))
    over = life.with_alarm(LagFell(1.0), 9.0)
    assert (over.alarm, [note.at for note in over.notes]) == ("", [5.0, 9.0])


def test_an_alarm_that_goes_on_from_what_is_remembered_is_not_told_again() -> None:
    life = StreamLife()
    for number in range(12):
        life = life.with_batch(Batch(number, number, 1.0, 1, lag=2.0 * number))
    alarm = life.lag_alarm()
    assert alarm.see(30.0, 1.0) is None
    assert alarm.see(0.0, 1.0) == LagFell(0.0)
