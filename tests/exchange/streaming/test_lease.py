"""One query on a checkpoint at a time, on every kind of storage."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.errors import CheckpointHeldError, LeaseLostError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


def lease(job: JobFolder, clock: Clock, owner: str, token: str = "") -> CheckpointLease:
    holder = Holder(owner, token or owner, f"s-{owner}", "localhost:1", query=f"query of {owner}")
    return CheckpointLease(job.root / "checkpoint", holder, clock)


def test_who_comes_second_is_told_who_is_there(job: JobFolder) -> None:
    clock = Clock()
    assert lease(job, clock, "one").take() is None
    with pytest.raises(CheckpointHeldError) as caught:
        lease(job, clock, "two").take()
    assert str(caught.value) == (
        f"checkpoint {job.root / 'checkpoint'}: one runs a query on it (session s-one); expected one query at a time. "
        "Stop the other one, or give this stream a checkpoint of its own; a killed one releases it after a minute"
    )


def test_a_lease_that_is_renewed_lasts(job: JobFolder) -> None:
    clock = Clock()
    mine = lease(job, clock, "one")
    mine.take()
    for _ in range(5):
        clock.now += 30
        mine.renew()
    with pytest.raises(CheckpointHeldError):
        lease(job, clock, "two").take()


def test_one_that_was_given_back_is_free_and_leaves_no_query(job: JobFolder) -> None:
    clock = Clock()
    mine = lease(job, clock, "one")
    mine.take()
    mine.give_back()
    assert lease(job, clock, "two").take() is None


def test_one_that_is_over_is_taken_with_the_name_of_whose_query_may_still_run(job: JobFolder) -> None:
    clock = Clock()
    lease(job, clock, "one").take()
    clock.now += 61
    before = lease(job, clock, "two").take()
    assert before == Holder("one", "one", "s-one", "localhost:1", "query of one", 1_060.0)


def test_the_session_before_stays_named_until_another_is_begun(job: JobFolder) -> None:
    clock = Clock()
    lease(job, clock, "one").take()
    clock.now += 61
    second = lease(job, clock, "two")
    second.take()
    clock.now += 61
    third = lease(job, clock, "three")
    found = third.take()
    assert found is not None
    assert (found.owner, found.session_id) == ("two", "s-one")
    third.begin_session("s-three", "localhost:3")
    clock.now += 61
    expected = Holder("three", "three", "s-three", "localhost:3", "query of three", 1_182.0)
    assert lease(job, clock, "four").take() == expected


def test_whoever_was_taken_over_learns_it_however_long_it_was_paused(job: JobFolder) -> None:
    clock = Clock()
    paused = lease(job, clock, "one")
    paused.take()
    clock.now += 61
    lease(job, clock, "two").take()
    with pytest.raises(CheckpointHeldError, match="two runs a query on it"):
        paused.renew()
    paused.give_back()
    with pytest.raises(CheckpointHeldError):
        lease(job, clock, "three").take()


def test_another_process_of_the_same_task_takes_over_at_once(job: JobFolder) -> None:
    clock = Clock()
    paused = lease(job, clock, "one", "triggerer a")
    paused.take()
    before = lease(job, clock, "one", "triggerer b").take()
    assert before is not None
    assert before.token == "triggerer a"
    with pytest.raises(LeaseLostError, match="another process of one supervises its query now; this one stops"):
        paused.renew()


def test_whoever_stops_a_query_takes_it_over_but_no_later_one_of_the_same_task(job: JobFolder) -> None:
    clock = Clock()
    assert lease(job, clock, "one", "killer").take_over() is None
    running = lease(job, clock, "one")
    running.take()
    killer = lease(job, clock, "one", "killer")
    found = killer.take_over()
    assert found is not None
    assert found.session_id == "s-one"
    with pytest.raises(LeaseLostError):
        running.renew()
    killer.give_back()
    assert lease(job, clock, "one", "killer").take_over() is None
    CheckpointLease(job.root / "checkpoint", Holder("one", "next try", query="another"), clock).take()
    assert lease(job, clock, "one", "killer").take_over() is None


def test_of_two_that_see_it_free_one_gets_it(job: JobFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    first, second = lease(job, clock, "one"), lease(job, clock, "two")
    append = CheckpointLease._append

    def after_the_other(self: CheckpointLease, seconds: float | None) -> bool:
        if self is first:
            second.take()
        return append(self, seconds)

    monkeypatch.setattr(CheckpointLease, "_append", after_the_other)
    with pytest.raises(CheckpointHeldError, match="two runs a query on it"):
        first.take()
