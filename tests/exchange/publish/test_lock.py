from __future__ import annotations

import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
from upath import UPath

from airflow_abs.exchange.errors import CommitConflictError
from airflow_abs.exchange.publish.lock import StoreLock, hold_local_lock
from airflow_abs.exchange.storage.locations import Location, locate


class Clock:
    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture(params=["memory", "s3"])
def location(request: pytest.FixtureRequest) -> Location:
    if request.param == "s3":
        return locate(request.getfixturevalue("s3_root") / "_airflow_abs_lock")
    return locate(UPath(f"memory://locks-{uuid.uuid4().hex}/_airflow_abs_lock"))


def test_a_local_lock_is_held_by_one_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "work" / "t.lock"
    with hold_local_lock(path, "run 1", "/t"):
        with (
            pytest.raises(CommitConflictError, match="sink /t: run 1 is publishing to it right now"),
            hold_local_lock(path, "run 2", "/t"),
        ):
            pass
        assert path.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_file_without_a_living_holder_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "t.lock").write_text('{"identity": "run 1", "pid": 1}')
    with hold_local_lock(tmp_path / "t.lock", "run 2", "/t"):
        assert '"run 2"' in (tmp_path / "t.lock").read_text()


def test_the_folder_of_a_lock_stays_while_others_use_it(tmp_path: Path) -> None:
    with hold_local_lock(tmp_path / "work" / "a.lock", "run 1", "/a"):
        with hold_local_lock(tmp_path / "work" / "b.lock", "run 2", "/b"):
            pass
        assert (tmp_path / "work" / "a.lock").exists()


def test_a_folder_that_a_sibling_removes_while_it_is_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "work"
    make, raced = os.mkdir, [False]

    def made_by_a_sibling_that_removes_it(path: str | Path, mode: int = 0o777) -> None:
        if Path(path) == folder and not raced[0]:
            raced[0] = True
            raise FileExistsError(17, "File exists", str(path))
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", made_by_a_sibling_that_removes_it)
    with hold_local_lock(folder / "t.lock", "run", "/t"):
        assert raced == [True]


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "work").touch()
    with pytest.raises(FileExistsError), hold_local_lock(tmp_path / "work" / "t.lock", "run", "/t"):
        pass


def test_a_conflict_leaves_no_open_file(tmp_path: Path) -> None:
    with hold_local_lock(tmp_path / "t.lock", "run 1", "/t"):
        before = sorted(os.listdir("/proc/self/fd"))
        for _ in range(5):
            with pytest.raises(CommitConflictError), hold_local_lock(tmp_path / "t.lock", "run 2", "/t"):
                pass
        assert sorted(os.listdir("/proc/self/fd")) == before


def test_a_store_lock_is_held_by_one_and_leaves_nothing(location: Location) -> None:
    with StoreLock(location, "run 1", "memory://t"):
        with pytest.raises(CommitConflictError, match="sink memory://t: run 1 is publishing"):
            StoreLock(location, "run 2", "memory://t").__enter__()
        assert location.fs.exists(location.path)
    assert not location.fs.exists(location.path)


def test_a_lock_past_its_lease_is_taken_over(location: Location) -> None:
    clock = Clock()
    StoreLock(location, "run 1", "t", now=clock, lease_seconds=60).__enter__()  # and then killed
    clock.seconds += 61
    with StoreLock(location, "run 2", "t", now=clock):
        pass


def test_of_many_that_find_a_lock_past_its_lease_on_s3_one_takes_it_over(s3_root: UPath) -> None:
    location = locate(s3_root / "_airflow_abs_lock")
    StoreLock(location, "dead", "t", lease_seconds=-1).__enter__()
    looked = Barrier(4)

    class Slow(StoreLock):
        def _may_take_over(self, holder: bytes) -> bool:
            looked.wait(60)  # all have seen the dead one's
            return super()._may_take_over(holder)

    def take(number: int) -> bool:
        try:
            Slow(location, f"run {number}", "t").__enter__()
        except CommitConflictError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(take, range(4))) == [False, False, False, True]


def test_a_retry_of_the_same_run_does_not_wait_for_the_lease(location: Location) -> None:
    StoreLock(location, "run 1", "t").__enter__()
    with StoreLock(location, "run 1", "t"):
        pass


def test_a_renewed_lease_holds_on(location: Location) -> None:
    clock = Clock()
    with StoreLock(location, "run 1", "t", now=clock, lease_seconds=60) as lock:
        clock.seconds += 50
        lock.renew()
        clock.seconds += 50
        with pytest.raises(CommitConflictError, match="run 1 is publishing"):
            StoreLock(location, "run 2", "t", now=clock).__enter__()


def test_who_was_taken_over_learns_it_before_the_commit(location: Location) -> None:
    clock = Clock()
    slow = StoreLock(location, "run 1", "t", now=clock, lease_seconds=60).__enter__()
    clock.seconds += 61
    with StoreLock(location, "run 2", "t", now=clock):
        with pytest.raises(CommitConflictError, match="run 2 is publishing"):
            slow.renew()
        slow.__exit__(None, None, None)  # must not take the lock of the other with it
        assert location.fs.exists(location.path)


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_an_unreadable_lock_is_taken_over(location: Location, content: bytes) -> None:
    location.fs.pipe_file(location.path, content)
    with StoreLock(location, "run 2", "t"):
        pass


def test_a_lock_that_vanishes_while_it_is_looked_at_is_taken(
    location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = StoreLock(location, "run 1", "t")
    answers = iter([False, True])
    create = lock._create
    monkeypatch.setattr(lock, "_create", lambda: next(answers) and create())
    with lock:
        pass
