from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_abs.exchange.errors import TargetBusyError
from airflow_abs.exchange.publish.lock import hold_local_lock


def test_a_local_lock_is_held_by_one_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "work" / "t.lock"
    with hold_local_lock(path, "run 1", "/t"):
        with (
            pytest.raises(TargetBusyError, match="sink /t: run 1 is publishing to it right now"),
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
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            with pytest.raises(TargetBusyError), hold_local_lock(tmp_path / "t.lock", "run 2", "/t"):
                pass
        assert len(list(Path("/proc/self/fd").iterdir())) == before
