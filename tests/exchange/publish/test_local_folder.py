"""Publishing on a local file system: two folders swap their names."""

from __future__ import annotations

import contextlib
import ctypes
import errno
from pathlib import Path

import pytest
from upath import UPath

from airflow_abs.exchange.errors import CommitError, TargetExistsError
from airflow_abs.exchange.publish.local_folder import LocalCommit, exchange, work_folder
from airflow_abs.exchange.publish.publication import publish
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import CommitMode
from airflow_abs.exchange.storage.whole_files import write_atomic
from tests.exchange.publish.commits import stage, visible


def test_the_new_folder_is_built_beside_the_table_where_globs_do_not_look(tmp_path: Path) -> None:
    table = tmp_path / "mart" / "revenue"
    hidden = tmp_path / "mart" / ".revenue.airflow_abs"
    assert work_folder(table / "ds=1" / "region=eu") == (hidden, "revenue~2Fds~3D1~2Fregion~3Deu")
    assert work_folder(table) == (hidden, "revenue")


def test_below_the_table_if_beside_it_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "mart" / "revenue"
    table.mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path / "mart")
    assert work_folder(table / "ds=1") == (table / ".airflow_abs", "revenue~2Fds~3D1")


def test_two_folders_swap_names_at_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"in-{name}").touch()
    assert exchange(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["in-b"]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["in-a"]


def test_a_swap_with_nothing_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        exchange(tmp_path / "a", tmp_path / "b")


def test_a_refused_link_becomes_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    staged = stage(tmp_path, ["a"])
    monkeypatch.setattr("os.link", refuse)
    publish(tmp_path / "mart" / "t", staged, mode="append", publisher=Publisher("run"))
    assert visible(tmp_path / "mart" / "t") == ["a"]


def test_a_full_disk_is_named_and_leaves_the_old_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "mart" / "t"
    publish(target, stage(tmp_path, ["old"]), mode="overwrite", publisher=Publisher("run 1"))
    staged = stage(tmp_path, ["new"], attempt=2)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.link", full)
    with pytest.raises(CommitError, match=r"cannot be published \(OSError: .*No space left.*readers see what they saw"):
        publish(target, staged, mode="overwrite", publisher=Publisher("run 2"))
    assert visible(target) == ["old"]


def test_a_symlink_to_the_target_keeps_pointing_to_it(tmp_path: Path) -> None:
    (tmp_path / "disk" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "t")
    publish(tmp_path / "link", stage(tmp_path, ["a"]), mode="overwrite", publisher=Publisher("run"))
    assert (tmp_path / "link").is_symlink()
    assert visible(tmp_path / "disk" / "t") == ["a"]


def test_append_keeps_a_folder_that_is_a_link(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    write_atomic(tmp_path / "disk" / "hour=1" / "old.parquet", b"old")
    target.mkdir(parents=True)
    (target / "hour=1").symlink_to("../../disk/hour=1")
    publish(target, stage(tmp_path, ["a"]), mode="append", publisher=Publisher("run"))
    assert (target / "hour=1").readlink() == Path("../../disk/hour=1")
    assert (target / "hour=1" / "old.parquet").read_bytes() == b"old"
    assert [path.read_bytes() for path in target.glob("*.parquet")] == [b"a"]


def test_mode_error_sees_a_folder_that_is_a_link(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    (tmp_path / "disk").mkdir()
    target.mkdir(parents=True)
    (target / "hour=1").symlink_to(tmp_path / "disk")
    with pytest.raises(TargetExistsError, match="holds 1 file that run did not publish"):
        publish(target, stage(tmp_path, ["a"]), mode="error", publisher=Publisher("run"))


def test_overwrite_removes_a_link_and_not_what_is_behind_it(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    write_atomic(tmp_path / "disk" / "old.parquet", b"old")
    target.mkdir(parents=True)
    (target / "hour=1").symlink_to(tmp_path / "disk")
    publish(target, stage(tmp_path, ["a"]), mode="overwrite", publisher=Publisher("run"), replace_foreign=True)
    assert not (target / "hour=1").is_symlink()
    assert (tmp_path / "disk" / "old.parquet").read_bytes() == b"old"


def test_the_mode_bits_of_the_target_stay(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    target.mkdir(parents=True)
    target.chmod(0o2770)
    publish(target, stage(tmp_path, ["a"]), mode="overwrite", publisher=Publisher("run"), replace_foreign=True)
    assert target.stat().st_mode & 0o7777 == 0o2770


def test_files_staged_on_another_store_are_copied(tmp_path: Path) -> None:
    memory = UPath("memory://other-store")
    publish(tmp_path / "t", stage(memory, ["a"]), mode="overwrite", publisher=Publisher("run"))
    publish(memory / "t", stage(tmp_path, ["b"]), mode="overwrite", publisher=Publisher("run"))
    assert (visible(tmp_path / "t"), visible(memory / "t")) == (["a"], ["b"])
    memory.fs.rm(memory.path, recursive=True)


def test_local_commit_hears_every_step(tmp_path: Path) -> None:
    steps: list[str] = []
    plan = LocalCommit(tmp_path / "t", Publisher("run"), steps.append).publish(stage(tmp_path, ["a"]), "append")
    name = plan.put[0][1]
    assert steps == [
        "locked",
        "recovered",
        "kept files placed",
        f"{name} placed",
        "recorded",
        "built",
        "swapped",
        "cleaned",
    ]


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL])
def test_where_folders_cannot_be_swapped_two_renames_do_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    class Libc:
        @staticmethod
        def renameat2(*_: object) -> int:
            ctypes.set_errno(code)
            return -1

    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: Libc)
    target = tmp_path / "mart" / "t"
    for run in ("a", "b"):
        publish(target, stage(tmp_path, [run]), mode="overwrite", publisher=Publisher(run))
    assert visible(target) == ["b"]
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # a C library without the call
    publish(target, stage(tmp_path, ["c"]), mode="overwrite", publisher=Publisher("c"))
    assert visible(target) == ["c"]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("swaps", [True, False])
def test_what_others_add_while_the_new_folder_is_built_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CommitMode, swaps: bool
) -> None:
    if not swaps:
        monkeypatch.setattr("airflow_abs.exchange.publish.local_folder.exchange", lambda *_: False)
    target = tmp_path / "t"
    publish(target, stage(tmp_path, ["a"]), mode=mode, publisher=Publisher("monday"))

    def add(step: str) -> None:
        if step == "built":
            for name in ("ds=1/theirs.parquet", "_temporary/half.parquet"):
                write_atomic(target / name, b"theirs")

    LocalCommit(target, Publisher("tuesday"), add).publish(stage(tmp_path, ["b"]), mode)
    assert visible(target) == ["a", "b", "theirs"][mode == "overwrite" :]
    assert not (target / "_temporary").exists()


class Killed(BaseException):
    """As by SIGKILL: nothing that follows runs."""


@pytest.mark.parametrize(
    ("mode", "dies_after"),
    [("append", "kept files placed"), ("append", "moved aside"), ("append", "swapped"), ("overwrite", "swapped")],
)
@pytest.mark.parametrize("swaps", [True, False])
def test_what_others_add_to_a_publisher_that_is_killed_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: CommitMode, dies_after: str, swaps: bool
) -> None:
    if not swaps:
        monkeypatch.setattr("airflow_abs.exchange.publish.local_folder.exchange", lambda *_: False)
    target = tmp_path / "t"
    publish(target, stage(tmp_path, ["a"]), mode=mode, publisher=Publisher("monday"))

    def act(step: str) -> None:
        if step == "kept files placed":
            for name in ("ds=1/theirs.parquet", "_temporary/half.parquet"):
                write_atomic(target / name, b"theirs")
        if step == dies_after:
            raise Killed

    staged = stage(tmp_path, ["b"])
    with contextlib.suppress(Killed):
        LocalCommit(target, Publisher("tuesday"), act).publish(staged, mode)
    for _ in range(2):
        publish(target, staged, mode=mode, publisher=Publisher("tuesday"))
        assert visible(target) == ["a", "b", "theirs"][mode == "overwrite" :]
    assert [path for path in tmp_path.rglob("*") if path.suffix in (".new", ".old", ".known")] == []
