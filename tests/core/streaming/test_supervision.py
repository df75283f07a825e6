"""A stream's life as a list of what was seen and what was to be done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.restart_backoff import FixedDelay
from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure
from airflow_abs.core.streaming.states import State
from airflow_abs.core.streaming.supervision import (
    CancelAsked,
    DrainAsked,
    Ended,
    Instruction,
    QueryEnded,
    QueryStarted,
    Seen,
    SlotsSeen,
    SlotsWanted,
    StartQuery,
    StopQuery,
    StreamSupervisor,
    Tell,
    TimePassed,
)

LOST = QueryFailure("a worker was lost", batch=3)
S = State


def supervisor(*, ends: bool = False, attempts: int = 9) -> StreamSupervisor:
    """Wants four slots, has enough with two that are there for 10 s, waits for 60 s."""
    judge = FailureJudge(FixedDelay(attempts, 2_000))
    return StreamSupervisor(judge, SlotsWanted(4, 2), ends=ends, wait=WaitOptions(60, 10))


def executing(**options: bool | int) -> StreamSupervisor:
    made = supervisor(**options)  # type: ignore[arg-type]
    made.begin(0)
    made.see(SlotsSeen(4), 0)
    made.see(QueryStarted(), 1)
    assert made.state is S.EXECUTING
    return made


def test_with_all_slots_that_it_wants_it_starts_at_once() -> None:
    made = supervisor()
    assert made.begin(0) == [Tell(S.CREATED, S.WAITING_FOR_RESOURCES, "started")]
    assert made.see(SlotsSeen(5), 1) == [
        Tell(S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH, "desired resources are there"),
        StartQuery(),
    ]
    assert made.see(QueryStarted(), 2) == [Tell(S.CREATING_EXECUTION_GRAPH, S.EXECUTING, "slots are assigned")]


def test_with_enough_slots_it_starts_once_they_are_stable() -> None:
    made = supervisor()
    made.begin(0)
    assert made.see(SlotsSeen(2), 5) == []
    assert made.see(SlotsSeen(3), 9) == []  # enough before and after: no change
    assert made.next_at == 15
    assert made.see(TimePassed(), 15)[-1] == StartQuery()


def test_without_enough_slots_it_fails_after_the_resource_timeout_and_says_why() -> None:
    made = supervisor()
    made.begin(0)
    made.see(SlotsSeen(1), 1)
    reason = "fewer than 2 slots until the resource timeout"
    assert made.see(TimePassed(), 60) == [
        Tell(S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH, "the resource timeout has passed"),
        Tell(S.CREATING_EXECUTION_GRAPH, S.FINISHED, reason),
        Ended("FAILED", reason),
    ]


def test_a_failed_query_starts_again_after_the_backoff() -> None:
    made = executing()
    assert made.see(QueryEnded(LOST), 20) == [
        Tell(S.EXECUTING, S.RESTARTING, "failed in batch 3: a worker was lost"),
        StopQuery(),
    ]
    assert made.see(QueryEnded(), 21) == []
    assert made.next_at == 23  # 2 s after it was known to have ended
    assert made.see(TimePassed(), 23) == [Tell(S.RESTARTING, S.WAITING_FOR_RESOURCES, "the backoff has passed")]
    assert made.see(SlotsSeen(4), 24)[-1] == StartQuery()


def test_slots_of_a_server_that_is_gone_do_not_count() -> None:
    made = executing()
    made.see(QueryEnded(LOST), 20)
    made.see(QueryEnded(), 21)
    made.see(TimePassed(), 23)
    assert made.see(SlotsSeen(0), 24) == []
    assert made.see(SlotsSeen(4), 40)[-1] == StartQuery()


def test_a_start_that_fails_is_a_failure_like_any_other() -> None:
    made = supervisor()
    made.begin(0)
    made.see(SlotsSeen(4), 0)
    assert made.see(QueryEnded(LOST), 1)[-1] == StopQuery()
    assert made.state is S.RESTARTING


def test_a_query_that_cannot_succeed_ends_the_stream() -> None:
    made = executing()
    wrong = QueryFailure("no such column", restartable=False)
    assert made.see(QueryEnded(wrong), 20)[-1] == StopQuery()
    assert made.see(QueryEnded(), 21)[-1] == Ended("FAILED", "failed, and would again: no such column")


def test_a_query_that_reads_what_is_there_is_done_when_it_ends() -> None:
    assert executing(ends=True).see(QueryEnded(), 9)[-1] == Ended("FINISHED", "the execution has ended")


def test_a_query_without_end_that_was_stopped_by_others_starts_again() -> None:
    told = executing().see(QueryEnded(), 9)
    assert told[0] == Tell(S.EXECUTING, S.RESTARTING, "failed: somebody else has stopped the query")


def test_a_drained_stream_is_stopped_and_has_succeeded() -> None:
    made = executing()
    assert made.see(DrainAsked(), 9) == [
        Tell(S.EXECUTING, S.STOP_WITH_SAVEPOINT, "asked to stop"),
        StopQuery(),
    ]
    assert made.see(QueryEnded(), 10)[-1] == Ended("FINISHED", "the execution has ended")


def test_a_stream_that_is_given_up_is_stopped_first() -> None:
    made = executing()
    assert made.see(CancelAsked(), 9) == [Tell(S.EXECUTING, S.CANCELING, "canceled"), StopQuery()]
    assert made.see(QueryEnded(), 10)[-1] == Ended("CANCELED", "the execution has stopped")


def test_slots_that_come_and_go_do_not_disturb_what_runs() -> None:
    made = executing()
    assert [made.see(SlotsSeen(slots), 1_000.0 * slots) for slots in (1, 2, 8, 0)] == [[], [], [], []]
    assert made.see(TimePassed(), 1e6) == []


SEEN = st.sampled_from(
    [
        SlotsSeen(0),
        SlotsSeen(2),
        SlotsSeen(4),
        QueryEnded(LOST),
        QueryEnded(),
        TimePassed(),
        DrainAsked(),
        CancelAsked(),
    ]
)


@given(st.lists(SEEN, max_size=40), st.booleans())
def test_no_query_is_started_while_one_may_run_and_none_is_left_when_it_has_ended(seen: list[Seen], ends: bool) -> None:
    """Whatever is seen; a start and a stop are answered at once, as the performer does."""
    made, runs, ended, now = supervisor(ends=ends), False, False, 0.0

    def do(instructions: list[Instruction]) -> None:
        nonlocal runs, ended
        for instruction in instructions:
            assert not ended
            match instruction:
                case StartQuery():
                    assert not runs
                    runs = True
                    do(made.see(QueryStarted(), now))
                case StopQuery():
                    runs = False
                    do(made.see(QueryEnded(), now))
                case Ended():
                    assert not runs
                    ended = True

    do(made.begin(now))
    for each in seen:
        now += 5
        if isinstance(each, QueryEnded):
            if not runs:
                continue
            runs = False
        do(made.see(each, now))
