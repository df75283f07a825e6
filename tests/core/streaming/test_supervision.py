"""A stream's life as a list of what was seen and what was to be done."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.restart_backoff import FixedDelay
from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.states import State
from airflow_abs.core.streaming.supervision import (
    BatchBoundary,
    CancelAsked,
    DrainAsked,
    Ended,
    Instruction,
    QueryEnded,
    QueryStarted,
    Seen,
    SlotsSeen,
    StartQuery,
    StopQuery,
    StreamSupervisor,
    Tell,
    TimePassed,
)

LOST = QueryFailure("a worker was lost", batch=3)
S = State


def supervisor(*, ends: bool = False, attempts: int = 9, rescale: Rescale | None = None) -> StreamSupervisor:
    """Wants four slots, has enough with two that are there for 10 s, waits for 60 s."""
    judge = FailureJudge(FixedDelay(attempts, 2_000))
    return StreamSupervisor(judge, SlotsWanted(4, 2), ends=ends, wait=WaitOptions(60, 10), rescale=rescale)


def executing(*, ends: bool = False, rescale: Rescale | None = None, slots: int = 4) -> StreamSupervisor:
    made = supervisor(ends=ends, rescale=rescale)
    made.begin(0)
    made.see(SlotsSeen(slots), 0)
    if slots < 4:
        made.see(TimePassed(), 10)
    made.see(QueryStarted(slots), 1)
    assert made.state is S.EXECUTING
    return made


def test_with_all_slots_that_it_wants_it_starts_at_once() -> None:
    made = supervisor()
    assert made.begin(0) == [Tell(S.CREATED, S.WAITING_FOR_RESOURCES, "started")]
    assert made.see(SlotsSeen(5), 1) == [
        Tell(S.WAITING_FOR_RESOURCES, S.CREATING_EXECUTION_GRAPH, "desired resources are there"),
        StartQuery(4),
    ]
    assert made.see(QueryStarted(), 2) == [Tell(S.CREATING_EXECUTION_GRAPH, S.EXECUTING, "slots are assigned")]


def test_with_enough_slots_it_starts_once_they_are_stable() -> None:
    made = supervisor()
    made.begin(0)
    assert made.see(SlotsSeen(2), 5) == []
    assert made.see(SlotsSeen(3), 9) == []  # enough before and after: no change
    assert made.next_at == 15
    assert made.see(TimePassed(), 15)[-1] == StartQuery(3)


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
    assert made.see(SlotsSeen(4), 24)[-1] == StartQuery(4)


def test_slots_of_a_server_that_is_gone_do_not_count() -> None:
    made = executing()
    made.see(QueryEnded(LOST), 20)
    made.see(QueryEnded(), 21)
    made.see(TimePassed(), 23)
    assert made.see(SlotsSeen(0), 24) == []
    assert made.see(SlotsSeen(4), 40)[-1] == StartQuery(4)


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
    assert made.see(QueryEnded(), 21)[-1] == Ended("FAILED", "failed, and would fail again: no such column")


def test_a_query_that_reads_what_is_there_is_done_when_it_ends() -> None:
    assert executing(ends=True).see(QueryEnded(), 9)[-1] == Ended("FINISHED", "the execution has ended")


def test_a_query_without_end_that_was_stopped_by_others_starts_again() -> None:
    told = executing().see(QueryEnded(), 9)
    assert told[0] == Tell(S.EXECUTING, S.RESTARTING, "failed: the query was stopped from outside")


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


RESCALE = Rescale(cooldown=30, stabilization=60, max_delay=100)


def after_the_cooldown(slots: int, wanted: Rescale = RESCALE) -> StreamSupervisor:
    made = executing(rescale=wanted, slots=slots)
    assert made.see(TimePassed(), 31) == []
    return made


def test_all_slots_that_it_wants_make_it_start_again_between_two_batches() -> None:
    made = after_the_cooldown(2)
    assert made.see(BatchBoundary(), 40) == []
    assert made.see(SlotsSeen(4), 50) == []
    assert made.see(BatchBoundary(), 52) == [
        Tell(S.EXECUTING, S.RESTARTING, "desired resources are there"),
        StopQuery(),
    ]
    made.see(QueryEnded(), 53)
    assert made.see(TimePassed(), 53) == [
        Tell(S.RESTARTING, S.CREATING_EXECUTION_GRAPH, "restart with the available resources"),
        StartQuery(4),
    ]
    assert made.see(QueryStarted(4), 54)[-1].entered == S.EXECUTING  # type: ignore[union-attr]


def test_fewer_slots_must_be_stable_before_it_shrinks() -> None:
    made = after_the_cooldown(4)
    assert made.see(SlotsSeen(3), 40) == []
    assert made.see(SlotsSeen(2), 60) == []
    assert made.see(BatchBoundary(), 70) == []
    assert made.see(TimePassed(), 100) == []  # 60 s after the first change
    assert made.see(BatchBoundary(), 101)[0] == Tell(S.EXECUTING, S.RESTARTING, "sufficient resources were stable")
    made.see(QueryEnded(), 102)
    assert made.see(TimePassed(), 102)[-1] == StartQuery(2)


def test_slots_that_are_back_before_they_were_away_for_long_change_nothing() -> None:
    made = after_the_cooldown(4)
    made.see(SlotsSeen(2), 40)
    made.see(SlotsSeen(4), 60)
    assert made.see(TimePassed(), 100) == []
    assert made.see(BatchBoundary(), 101) == []
    assert made.see(TimePassed(), 1_000) == []


def test_a_batch_that_does_not_end_is_waited_for_no_longer_than_said() -> None:
    made = after_the_cooldown(2)
    made.see(SlotsSeen(4), 50)
    assert made.see(TimePassed(), 149) == []
    assert made.see(TimePassed(), 150)[-1] == StopQuery()


def test_with_too_few_slots_it_runs_on_as_it_is() -> None:
    made = after_the_cooldown(4)
    assert made.see(SlotsSeen(1), 40) == []
    assert made.see(TimePassed(), 200) == []
    assert made.see(BatchBoundary(), 201) == []


def test_a_small_increase_may_be_worth_no_restart() -> None:
    made = after_the_cooldown(2, Rescale(min_increase=2, cooldown=30, stabilization=0))
    made.see(SlotsSeen(3), 40)
    assert [made.see(TimePassed(), 41), made.see(BatchBoundary(), 42)] == [[], []]
    made.see(SlotsSeen(4), 50)  # all that it wants: any change is
    assert made.see(BatchBoundary(), 52)[-1] == StopQuery()


def test_one_that_was_found_running_with_other_slots_follows_those_that_there_are() -> None:
    made = supervisor(rescale=RESCALE)
    made.begin(0)
    assert made.see(SlotsSeen(4), 0)[-1] == StartQuery(4)
    made.see(QueryStarted(2), 0)
    assert made.see(TimePassed(), 30) == []
    assert made.see(BatchBoundary(), 31)[-1] == StopQuery()


def test_slots_that_are_lost_while_it_stops_are_waited_for() -> None:
    made = after_the_cooldown(2)
    made.see(SlotsSeen(4), 50)
    made.see(BatchBoundary(), 52)
    made.see(QueryEnded(), 53)
    made.see(SlotsSeen(1), 53)
    assert made.see(TimePassed(), 53)[-1] == Tell(
        S.CREATING_EXECUTION_GRAPH, S.WAITING_FOR_RESOURCES, "slots were lost meanwhile"
    )


SEEN = st.sampled_from(
    [
        BatchBoundary(),
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


@given(st.lists(SEEN, max_size=60), st.booleans(), st.sampled_from([None, Rescale(cooldown=5, stabilization=10)]))
def test_no_query_is_started_while_one_may_run_and_none_is_left_when_it_has_ended(
    seen: list[Seen], ends: bool, rescale: Rescale | None
) -> None:
    """Whatever is seen; a start and a stop are answered at once, as the performer does."""
    made, runs, ended, now = supervisor(ends=ends, rescale=rescale), False, False, 0.0

    def do(instructions: list[Instruction]) -> None:
        nonlocal runs, ended
        for instruction in instructions:
            assert not ended
            match instruction:
                case StartQuery(slots):
                    assert not runs
                    assert 2 <= slots <= 4
                    runs = True
                    do(made.see(QueryStarted(slots), now))
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
