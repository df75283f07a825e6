"""Claims on a target of an object store: leases, and what a publisher that was taken over can still do."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from upath import UPath

from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.publish.claim import TargetClaim
from airflow_abs.exchange.publish.commit_log import CommitLog, LogRecord
from airflow_abs.exchange.publish.record import CommitEntry, CommitRecord
from airflow_abs.exchange.storage.locations import Location, locate
from airflow_abs.exchange.storage.numbered_log import NumberedLog
from airflow_abs.exchange.storage.whole_files import create_exclusively


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(params=["memory", "s3"])
def target(request: pytest.FixtureRequest) -> Location:
    if request.param == "s3":
        return locate(request.getfixturevalue("s3_root") / "t")
    return locate(UPath(f"memory://claims-{uuid.uuid4().hex}/t"))


def claim(target: Location, identity: str, clock: Clock, lease_seconds: float = 60) -> TargetClaim:
    token = uuid.uuid4().hex
    log = CommitLog(target, token)
    return TargetClaim(log, identity, token, "memory://t", now=clock, lease_seconds=lease_seconds)


def test_a_claim_is_held_by_one_until_it_is_let_go(target: Location) -> None:
    clock = Clock()
    with claim(target, "run 1", clock):
        with pytest.raises(TargetBusyError, match="sink memory://t: run 1 is publishing to it right now; nothing"):
            claim(target, "run 2", clock).__enter__()
    with claim(target, "run 2", clock) as mine:
        assert [mine.record.number, mine.record.claim.identity] == [3, "run 2"]  # type: ignore[union-attr]


def test_a_claim_past_its_lease_is_taken_over(target: Location) -> None:
    clock = Clock()
    claim(target, "run 1", clock).__enter__()  # and then killed
    clock.seconds += 61
    with claim(target, "run 2", clock):
        pass


def test_of_many_that_find_a_claim_past_its_lease_one_takes_it_over(target: Location) -> None:
    clock = Clock()
    claim(target, "dead", clock).__enter__()
    clock.seconds += 61
    looked = Barrier(4)

    def take(number: int) -> bool:
        mine = claim(target, f"run {number}", clock)
        read = mine._log.read

        def read_together() -> LogRecord:
            found = read()
            looked.wait(60)  # all have seen the dead one's
            mine._log.read = read  # type: ignore[method-assign]
            return found

        mine._log.read = read_together  # type: ignore[method-assign]
        try:
            mine.__enter__()
        except TargetBusyError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        taken = sorted(pool.map(take, range(4)))
    assert taken[:3] == [False, False, False]
    assert taken[3] or target.scheme == "memory"  # whose exclusive create is none between threads


def test_a_retry_of_the_same_run_does_not_wait_for_the_lease(target: Location) -> None:
    clock = Clock()
    claim(target, "run 1", clock).__enter__()
    with claim(target, "run 1", clock):
        pass


def test_a_claim_is_renewed_when_a_third_of_its_lease_is_over(target: Location) -> None:
    clock = Clock()
    with claim(target, "run 1", clock) as mine:
        clock.seconds += 19
        mine.renew_if_due()
        assert mine.record.number == 1
        clock.seconds += 1
        mine.renew_if_due()
        assert mine.record.number == 2
        clock.seconds += 59
        with pytest.raises(TargetBusyError, match="run 1 is publishing"):
            claim(target, "run 2", clock).__enter__()


def test_who_was_taken_over_can_do_nothing_that_counts(target: Location) -> None:
    clock = Clock()
    slow = claim(target, "run 1", clock).__enter__()
    clock.seconds += 61
    with claim(target, "run 2", clock) as other:
        late = CommitRecord((CommitEntry("run 1", "digest", ()),))
        for step in (slow.renew_if_due, slow.check, lambda: slow.announce([], []), lambda: slow.commit(late, [])):
            with pytest.raises(TargetBusyError, match="run 2 is publishing"):
                step()
        slow.__exit__(None, None, None)  # must not take the claim of the other with it
        other.check()
    assert CommitLog(target).read().commit == CommitRecord()


def test_whoever_slept_until_its_number_was_deleted_learns_that_it_does_not_count(target: Location) -> None:
    log = CommitLog(target, "awake")
    for number in range(1, 9):
        assert log.append(LogRecord(number=number, writers=("awake",)))
    log.prune(8)
    assert not CommitLog(target, "slept").append(LogRecord(number=3, writers=("slept",)))
    assert log.read().number == 8
    log.prune(8)
    assert len(target.fs.find(target.path)) == 1


def test_a_create_whose_answer_was_lost_is_found_to_be_our_own(
    target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    def create_and_lose_the_answer(place: Location, data: bytes) -> bool:
        create_exclusively(place, data)
        return create_exclusively(place, data)

    monkeypatch.setattr("airflow_abs.exchange.storage.numbered_log.create_exclusively", create_and_lose_the_answer)
    assert CommitLog(target, "mine").append(LogRecord(number=1, writers=("mine",)))
    assert not CommitLog(target, "other").append(LogRecord(number=1, writers=("other",)))


def test_a_commit_that_another_claim_follows_at_once_has_counted(
    target: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    mine = claim(target, "run 1", clock).__enter__()
    done = CommitRecord((CommitEntry("run 1", "digest", ()),))
    newest, followed = NumberedLog._newest, []

    def look_after_another_has_claimed(self: NumberedLog) -> int:
        if self is mine._log._log and not followed:
            followed.append(claim(target, "run 2", clock).__enter__())
        return newest(self)

    monkeypatch.setattr(NumberedLog, "_newest", look_after_another_has_claimed)
    mine.commit(done, [])
    assert followed[0].record.commit == done


def test_a_log_that_changes_faster_than_it_is_read_is_told(target: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NumberedLog, "_newest", lambda self: 7)
    monkeypatch.setattr("airflow_abs.exchange.storage.numbered_log._content", lambda place: None)
    with pytest.raises(TargetBusyError, match="its log changed 100 times while it was read; expected one"):
        CommitLog(target).read()
