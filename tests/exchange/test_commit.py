from __future__ import annotations

import ctypes
import errno
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from upath import UPath

from airflow_abs.exchange import commit_local
from airflow_abs.exchange.commit import CommitMode, Publication, StagedFile, publish, read_commit, staged_files
from airflow_abs.exchange.commit_local import LocalCommit, exchange, work_folder
from airflow_abs.exchange.commit_record import is_data_file
from airflow_abs.exchange.errors import (
    CommitConflictError,
    CommitError,
    DamagedFileError,
    MissingFileError,
    TargetExistsError,
)
from airflow_abs.exchange.locations import ExchangePath, locate
from airflow_abs.exchange.manifest import Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.store import read_bytes, write_atomic

EXTENSION = "-c000.lz4raw.parquet"


class KilledError(Exception):
    """Raised at a step in place of a kill."""


def stage(root: ExchangePath, contents: Sequence[str], attempt: int = 1) -> list[StagedFile]:
    staged = []
    for k, content in enumerate(contents):
        name = f"by_region/subtask-{k}/attempt-{attempt}/sink/part-0{EXTENSION}"
        path = root / "staged" / f"attempt-{attempt}" / f"subtask-{k}" / f"part-0{EXTENSION}"
        write_atomic(path, content.encode())
        staged.append(StagedFile(path, name, len(content.encode()), rows=1))
    return staged


def visible(target: ExchangePath) -> list[str]:
    """The contents that a reader of the folder sees, sorted."""
    location = locate(target)
    location.forget_listings()
    names = [location.at(path).relative_to(location) for path in location.fs.find(location.path)]
    return sorted(bytes(location.fs.cat_file((location / name).path)).decode() for name in names if is_data_file(name))


def leftovers(target: ExchangePath) -> list[str]:
    """Names beside and in the target that are neither data nor the record."""
    location = locate(target).parent.parent
    names = [location.at(path).relative_to(location) for path in location.fs.find(location.path)]
    ours = [name for name in names if not name.startswith("staged/") and not is_data_file(name)]
    return sorted(name for name in ours if not name.endswith(("/_SUCCESS", "/_airflow_abs_commit")))


@pytest.fixture
def target(root: ExchangePath) -> ExchangePath:
    return root / "mart" / "revenue" / "ds=2026-01-01"


def test_a_new_target_holds_the_files_with_names_of_this_run(root: ExchangePath, target: ExchangePath) -> None:
    done = publish(target, stage(root, ["one", "three"]), mode="overwrite", identity="dag/run/v")
    assert done == Publication(str(target), "dag/run/v", files=2, rows=2, bytes=8, changed=True)
    record = read_commit(target)
    assert record is not None
    (entry,) = record.entries
    names = [file.name for file in entry.files]
    assert names == [f"part-{k:05d}-{entry.digest[:12]}.lz4raw.parquet" for k in (0, 1)]
    assert [read_bytes(target / name) for name in names] == [b"one", b"three"]
    assert read_bytes(target / "_SUCCESS") == b""
    assert leftovers(target) == []


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_publishing_the_same_again_changes_nothing(root: ExchangePath, target: ExchangePath, mode: CommitMode) -> None:
    staged = stage(root, ["a", "b"])
    first = publish(target, staged, mode=mode, identity="run")
    again = publish(target, staged, mode=mode, identity="run")
    assert (first.changed, again.changed) == (True, False)
    assert (again.files, again.rows, again.bytes) == (2, 2, 2)
    assert visible(target) == ["a", "b"]


def test_overwrite_leaves_nothing_of_before(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "hour=1" / "foreign.parquet", b"old")
    publish(target, stage(root, ["a"]), mode="append", identity="run 1")
    publish(target, stage(root, ["b"], attempt=2), mode="overwrite", identity="run 2")
    assert visible(target) == ["b"]


def test_append_keeps_what_others_wrote(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "hour=1" / "foreign.parquet", b"old")
    publish(target, stage(root, ["a"]), mode="append", identity="run 1")
    publish(target, stage(root, ["b", "c"]), mode="append", identity="run 2")
    assert visible(target) == ["a", "b", "c", "old"]
    record = read_commit(target)
    assert record is not None
    assert [entry.identity for entry in record.entries] == ["run 1", "run 2"]


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_a_cleared_run_replaces_its_own_files_in_every_mode(
    root: ExchangePath, target: ExchangePath, mode: CommitMode
) -> None:
    publish(target, stage(root, ["a", "b"], attempt=1), mode=mode, identity="run")
    done = publish(target, stage(root, ["c"], attempt=2), mode=mode, identity="run")
    assert done.changed
    assert visible(target) == ["c"]


def test_files_that_somebody_deleted_are_published_again(root: ExchangePath, target: ExchangePath) -> None:
    staged = stage(root, ["a", "b"])
    publish(target, staged, mode="append", identity="run")
    record = read_commit(target)
    assert record is not None
    path = locate(target) / record.entries[0].files[0].name
    path.fs.rm_file(path.path)
    assert publish(target, staged, mode="append", identity="run").changed
    assert visible(target) == ["a", "b"]


def test_mode_error_refuses_a_target_with_data_of_others(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "foreign.parquet", b"old")
    with pytest.raises(
        TargetExistsError, match=r"holds 1 files that run did not publish \(such as 'foreign.parquet'\)"
    ):
        publish(target, stage(root, ["a"]), mode="error", identity="run")
    assert visible(target) == ["old"]
    assert leftovers(target) == []


def test_mode_error_accepts_an_empty_folder(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "_SUCCESS", b"")
    publish(target, stage(root, ["a"]), mode="error", identity="run")
    assert visible(target) == ["a"]


def test_a_run_without_files_empties_the_target(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["a"]), mode="overwrite", identity="run 1")
    done = publish(target, [], mode="overwrite", identity="run 2")
    assert (done.files, done.changed, visible(target)) == (0, True, [])
    assert read_bytes(target / "_SUCCESS") == b""


def test_a_missing_staged_file_leaves_the_old_output(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["old"]), mode="overwrite", identity="run 1")
    staged = stage(root, ["a", "b"], attempt=2)
    gone = locate(staged[1].source)
    gone.fs.rm_file(gone.path)
    with pytest.raises(MissingFileError, match="no such file; its manifest lists it: clear the subtask") as caught:
        publish(target, staged, mode="overwrite", identity="run 2")
    assert caught.value.path == str(gone)
    assert visible(target) == ["old"]


def test_a_staged_file_of_another_size_leaves_the_old_output(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["old"]), mode="overwrite", identity="run 1")
    staged = stage(root, ["a", "b"], attempt=2)
    write_atomic(staged[1].source, b"longer")
    with pytest.raises(DamagedFileError, match="6 bytes, its manifest says 1; clear the subtask"):
        publish(target, staged, mode="overwrite", identity="run 2")
    assert visible(target) == ["old"]


def test_an_unknown_mode_and_an_empty_identity_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode 'replace', expected one of overwrite, append, error"):
        publish(tmp_path / "t", [], mode="replace", identity="run")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected an identity that names the run"):
        publish(tmp_path / "t", [], mode="append", identity="")


def test_the_root_of_a_file_system_is_no_target() -> None:
    with pytest.raises(CommitError, match="is the root of a file system; give the sink a folder of its own"):
        publish(Path("/"), [], mode="append", identity="run")


def test_a_file_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    with pytest.raises(CommitError, match="is a file, expected a folder"):
        publish(tmp_path / "t", [], mode="append", identity="run")


def test_a_damaged_record_stops_the_publication(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "_airflow_abs_commit", b"{}")
    with pytest.raises(DamagedFileError, match="_airflow_abs_commit: 2 bytes that do not end in a checksum"):
        publish(target, stage(root, ["a"]), mode="append", identity="run")


def test_a_target_that_nobody_published_to_has_no_record(target: ExchangePath) -> None:
    assert read_commit(target) is None


def test_staged_files_are_those_of_the_manifests_in_order(job: JobFolder) -> None:
    def manifest(index: int, names: list[str]) -> Manifest:
        files = tuple(ResultFile(name, 10, 2, 0, (10,)) for name in names)
        return Manifest("v", index, 1, "d", 0.0, {"sink": ResultManifest("parquet", "{}", 1, files)})

    staged = staged_files(job, [manifest(0, ["v/a"]), manifest(1, []), manifest(2, ["v/b", "v/c"])], "sink")
    assert [(file.name, str(file.source), file.bytes, file.rows) for file in staged] == [
        (name, str(job.file_path(name)), 10, 2) for name in ("v/a", "v/b", "v/c")
    ]
    assert staged_files(job, [manifest(0, ["v/a"])], "other") == []


# --- killed at every step ---------------------------------------------------------------------------------------


def steps_of(root: ExchangePath, target: ExchangePath, mode: CommitMode) -> list[str]:
    steps: list[str] = []
    publish(target, stage(root, ["a", "b"], attempt=9), mode=mode, identity="dry run", on_step=steps.append)
    return steps


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("before", ["nothing", "something"])
@pytest.mark.parametrize("swaps", [True, False])
def test_stopped_at_any_step_and_run_again_the_target_is_whole(
    root: ExchangePath, mode: CommitMode, before: str, swaps: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not swaps:
        monkeypatch.setattr(commit_local, "exchange", lambda one, other: False)
    steps = steps_of(root, root / "mart" / "dry" / "t", mode)
    for number in range(len(steps) + 1):  # the swap by two renames has one step more
        target = root / "mart" / f"t{number}" / "ds=1"
        old = ["old 1", "old 2"] if before == "something" else []
        if old:
            publish(target, stage(root, old, attempt=1), mode="overwrite", identity="run 1")
        new = stage(root, ["new 1", "new 2", "new 3"], attempt=2)
        whole = [*(["new 1", "new 2", "new 3"]), *(old if mode == "append" else [])]

        remaining = [number]

        def stop(step: str, remaining: list[int] = remaining) -> None:
            remaining[0] -= 1
            if remaining[0] < 0:
                raise KilledError(step)

        with pytest.raises(KilledError) as caught:
            publish(target, new, mode=mode, identity="run 2", on_step=stop)
        if locate(target).is_local and str(caught.value) != "moved aside":
            assert visible(target) in (old, whole), f"a mixture after {caught.value}"
        done = publish(target, new, mode=mode, identity="run 2")
        assert visible(target) == whole, f"after {caught.value}"
        assert (done.files, leftovers(target)) == (3, []), f"after {caught.value}"


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_another_run_cleans_up_after_one_that_was_killed(root: ExchangePath, mode: CommitMode) -> None:
    for number, step in enumerate(steps_of(root, root / "mart" / "dry" / "t", mode)):
        target = root / "mart" / f"t{number}" / "ds=1"
        publish(target, stage(root, ["old"], attempt=1), mode="overwrite", identity="run 1")

        def stop(done: str, at: str = step) -> None:
            if done.rsplit(maxsplit=1)[-1] == at.rsplit(maxsplit=1)[-1]:
                raise KilledError(done)

        with pytest.raises(KilledError):
            publish(target, stage(root, ["lost 1", "lost 2"], 2), mode=mode, identity="run 2", on_step=stop)
        committed = read_commit(target)
        assert committed is not None
        published = committed.of("run 2") is not None
        publish(target, stage(root, ["new"], attempt=3), mode=mode, identity="run 3")
        lost = ["lost 1", "lost 2"] if published else []
        assert visible(target) == ([*lost, "new", "old"] if mode == "append" else ["new"]), f"after {step}"
        assert leftovers(target) == [], f"after {step}"


KILL_AT_EVERY_STEP = """
import os, sys
from pathlib import Path
from airflow_abs.exchange.commit import StagedFile, publish

root, mode, swaps = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "True"
if not swaps:
    from airflow_abs.exchange import commit_local
    commit_local.exchange = lambda one, other: False

def stage(names):
    paths = [root / name for name in names]
    for path in paths:
        path.write_text(path.name)
    return [StagedFile(path, path.name, len(path.name), 1) for path in paths]

def seen(target):
    return sorted(path.read_text() for path in target.glob("part-*")) if target.exists() else None

old, new = stage(["old1", "old2"]), stage(["new1", "new2"])
for number in range(100):
    target = root / "mart" / f"t{number}" / "ds=1"
    publish(target, old, mode="overwrite", identity="run 1")
    child = os.fork()
    if child == 0:
        left = [number]
        def die(step):
            if left[0] == 0:
                os._exit(9)  # no finally block runs, as after SIGKILL
            left[0] -= 1
        publish(target, new, mode=mode, identity="run 2", on_step=die)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = [*(["new1", "new2"]), *(["old1", "old2"] if mode == "append" else [])]
    assert seen(target) in (["old1", "old2"], after) + (() if swaps else (None,)), seen(target)
    publish(target, new, mode=mode, identity="run 2")
    assert seen(target) == after, (number, seen(target))
    assert sorted(path.name for path in (root / "mart").iterdir() if path.name.startswith(".")) == []
    if code == 0:
        print(number)
        break
"""


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize("swaps", [True, False])
def test_a_process_killed_at_any_step_leaves_old_or_new(tmp_path: Path, mode: str, swaps: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILL_AT_EVERY_STEP, str(tmp_path), mode, str(swaps)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 9  # so many steps were tried


# --- at once ------------------------------------------------------------------------------------------------------


def test_of_two_runs_at_once_one_wins_and_the_other_says_so(root: ExchangePath, target: ExchangePath) -> None:
    def second(step: str) -> None:
        if step == "recovered":
            with pytest.raises(CommitConflictError, match=r"run 1 is publishing to it right now; nothing was publish"):
                publish(target, stage(root, ["b"], attempt=2), mode="overwrite", identity="run 2")

    publish(target, stage(root, ["a"]), mode="overwrite", identity="run 1", on_step=second)
    assert visible(target) == ["a"]
    publish(target, stage(root, ["b"], attempt=2), mode="overwrite", identity="run 2")
    assert visible(target) == ["b"]


def test_partitions_of_one_table_are_published_side_by_side(root: ExchangePath) -> None:
    table = root / "mart" / "revenue"

    def other(step: str) -> None:
        if step == "recovered":
            publish(table / "ds=2", stage(root, ["b"], attempt=2), mode="overwrite", identity="run 2")

    publish(table / "ds=1", stage(root, ["a"]), mode="overwrite", identity="run 1", on_step=other)
    assert (visible(table / "ds=1"), visible(table / "ds=2")) == (["a"], ["b"])


def test_a_reader_during_many_publications_never_sees_a_mixture(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    runs = [stage(tmp_path, [f"{run}"] * 5, attempt=run) for run in range(30)]
    publish(target, runs[0], mode="overwrite", identity="run 0")
    seen: list[list[str]] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                seen.append([path.read_text() for path in target.glob("*.parquet")])
            except FileNotFoundError:  # listed before the swap, opened after it
                seen.append([])

    reader = threading.Thread(target=read)
    reader.start()
    for run in range(1, 30):
        publish(target, runs[run], mode="overwrite", identity=f"run {run}")
    over.set()
    reader.join(timeout=30)
    assert not reader.is_alive()
    whole = [contents for contents in seen if contents]
    assert whole
    assert all(len(contents) == 5 and len(set(contents)) == 1 for contents in whole)


# --- the local file system ----------------------------------------------------------------------------------------


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
    publish(tmp_path / "mart" / "t", staged, mode="append", identity="run")
    assert visible(tmp_path / "mart" / "t") == ["a"]


def test_a_full_disk_is_named_and_leaves_the_old_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "mart" / "t"
    publish(target, stage(tmp_path, ["old"]), mode="overwrite", identity="run 1")
    staged = stage(tmp_path, ["new"], attempt=2)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.link", full)
    with pytest.raises(CommitError, match=r"cannot be published \(OSError: .*No space left.*readers see what they saw"):
        publish(target, staged, mode="overwrite", identity="run 2")
    assert visible(target) == ["old"]


def test_a_symlink_to_the_target_keeps_pointing_to_it(tmp_path: Path) -> None:
    (tmp_path / "disk" / "t").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "t")
    publish(tmp_path / "link", stage(tmp_path, ["a"]), mode="overwrite", identity="run")
    assert (tmp_path / "link").is_symlink()
    assert visible(tmp_path / "disk" / "t") == ["a"]


def test_the_mode_bits_of_the_target_stay(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    target.mkdir(parents=True)
    target.chmod(0o2770)
    publish(target, stage(tmp_path, ["a"]), mode="overwrite", identity="run")
    assert target.stat().st_mode & 0o7777 == 0o2770


def test_files_staged_on_another_store_are_copied(tmp_path: Path) -> None:
    memory = UPath("memory://other-store")
    publish(tmp_path / "t", stage(memory, ["a"]), mode="overwrite", identity="run")
    publish(memory / "t", stage(tmp_path, ["b"]), mode="overwrite", identity="run")
    assert (visible(tmp_path / "t"), visible(memory / "t")) == (["a"], ["b"])
    memory.fs.rm(memory.path, recursive=True)


def test_local_commit_hears_every_step(tmp_path: Path) -> None:
    steps: list[str] = []
    plan = LocalCommit(tmp_path / "t", "run", steps.append).publish(stage(tmp_path, ["a"]), "append")
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


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["overwrite", "append"]),
            st.sampled_from(["run 1", "run 2", "run 3"]),
            st.lists(st.sampled_from("abcdef"), max_size=3),
            st.integers(0, 12),
        ),
        max_size=8,
    )
)
def test_any_story_of_runs_and_kills_ends_as_its_model(story: list[tuple[CommitMode, str, list[str], int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        model: dict[str, list[str]] = {}
        done: dict[str, tuple[str, int | None]] = {}
        for number, (mode, identity, contents, kill_at) in enumerate(story):
            staged = stage(root, contents, attempt=number)
            left = [kill_at]

            def stop(step: str, left: list[int] = left) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise KilledError(step)

            try:
                publish(root / "m" / "t", staged, mode=mode, identity=identity, on_step=stop)
            except KilledError:
                publish(root / "m" / "t", staged, mode=mode, identity=identity)
            what = (mode, number if contents else None)  # attempts differ, but no files are always the same no files
            if identity not in model or done[identity] != what:
                model = {**(model if mode == "append" else {}), identity: contents}
            done[identity] = what
            assert visible(root / "m" / "t") == sorted(content for contents in model.values() for content in contents)


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
        publish(target, stage(tmp_path, [run]), mode="overwrite", identity=run)
    assert visible(target) == ["b"]
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: object())  # a C library without the call
    publish(target, stage(tmp_path, ["c"]), mode="overwrite", identity="c")
    assert visible(target) == ["c"]


# --- object stores ------------------------------------------------------------------------------------------------


@pytest.fixture
def bucket() -> Iterator[UPath]:
    memory = UPath(f"memory://bucket-{uuid.uuid4().hex}")
    yield memory
    memory.fs.rm(memory.path, recursive=True)


def test_a_reader_of_the_record_sees_old_or_new_at_every_step(bucket: UPath) -> None:
    target = bucket / "mart" / "t"

    def recorded() -> list[str]:
        record = read_commit(target)
        assert record is not None
        return [read_bytes(target / file.name).decode() for entry in record.entries for file in entry.files]

    publish(target, stage(bucket, ["old 1", "old 2"]), mode="overwrite", identity="run 1")
    seen: list[list[str]] = []
    publish(
        target,
        stage(bucket, ["new 1", "new 2"], attempt=2),
        mode="overwrite",
        identity="run 2",
        on_step=lambda step: seen.append(recorded()),
    )
    assert [contents for number, contents in enumerate(seen) if number == 0 or contents != seen[number - 1]] == [
        ["old 1", "old 2"],
        ["new 1", "new 2"],
    ]


def test_an_intent_that_was_cut_off_is_forgotten(bucket: UPath) -> None:
    target = bucket / "t"
    publish(target, stage(bucket, ["a"]), mode="overwrite", identity="run 1")
    write_atomic(target / "_airflow_abs_intent", b'{"version":1,"dig')
    publish(target, stage(bucket, ["b"]), mode="append", identity="run 2")
    assert visible(target) == ["a", "b"]


def test_a_store_that_refuses_is_named(bucket: UPath, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Access Denied")

    staged = stage(bucket, ["a"])
    monkeypatch.setattr(type(bucket.fs), "cp_file", refuse)
    with pytest.raises(
        CommitError, match=r"cannot be published \(PermissionError: .*rights to read, write, list and d"
    ):
        publish(bucket / "t", staged, mode="append", identity="run")
