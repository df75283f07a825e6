"""Publishing, on every kind of storage: modes, repetitions, and several at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from airflow_abs.exchange.errors import (
    CommitError,
    DamagedFileError,
    MissingFileError,
    SupersededError,
    TargetBusyError,
    TargetExistsError,
)
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import (
    CommitMode,
    Publication,
    check_overwritten,
    publish,
    read_commit,
    staged_files,
)
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.records.manifest import Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic
from tests.exchange.publish.commits import KilledError, leftovers, stage, visible


def test_a_new_target_holds_the_files_with_names_of_this_run(root: ExchangePath, target: ExchangePath) -> None:
    done = publish(target, stage(root, ["one", "three"]), mode="overwrite", publisher=Publisher("dag/run/v"))
    assert done == Publication(str(target), "dag/run/v", files=2, rows=2, bytes=8, changed=True)
    record = read_commit(target)
    assert record is not None
    (entry,) = record.entries
    names = [file.name for file in entry.files]
    attempt = "" if locate(target).is_local else "-1"  # names are used once where nothing can be swapped
    assert names == [f"part-{k:05d}-{entry.digest[:12]}{attempt}.lz4raw.parquet" for k in (0, 1)]
    assert [read_bytes(target / name) for name in names] == [b"one", b"three"]
    assert read_bytes(target / "_SUCCESS") == b""
    assert leftovers(target) == []


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_publishing_the_same_again_changes_nothing(root: ExchangePath, target: ExchangePath, mode: CommitMode) -> None:
    staged = stage(root, ["a", "b"])
    first = publish(target, staged, mode=mode, publisher=Publisher("run"))
    again = publish(target, staged, mode=mode, publisher=Publisher("run"))
    assert (first.changed, again.changed) == (True, False)
    assert (again.files, again.rows, again.bytes) == (2, 2, 2)
    assert visible(target) == ["a", "b"]


def plan_of(generation: int, installation: str = "one") -> Publisher:
    return Publisher(f"{installation}:dag/monday/job", generation, "dag/monday/job", ("total",))


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_a_commit_of_an_earlier_plan_does_not_replace_what_a_later_one_published(
    root: ExchangePath, target: ExchangePath, mode: CommitMode
) -> None:
    publish(target, stage(root, ["a"], attempt=1), mode=mode, publisher=plan_of(1))
    publish(target, stage(root, ["b"], attempt=2), mode=mode, publisher=plan_of(2))
    with pytest.raises(SupersededError) as refused:
        publish(target, stage(root, ["late"], attempt=3), mode=mode, publisher=plan_of(1))
    assert str(refused.value) == (
        f"sink {locate(target)}: a later plan of this run (one:dag/monday/job) has published to it, number 2, and this "
        "commit is of plan number 1; nothing was published. The run was cleared while this commit ran; to replace its "
        "rows again, clear the task plan and everything after it"
    )
    assert refused.value.restartable is False
    assert visible(target) == ["b"]


def test_what_another_installation_appended_under_the_same_names_is_kept(
    root: ExchangePath, target: ExchangePath
) -> None:
    publish(target, stage(root, ["a"], attempt=1), mode="append", publisher=plan_of(7, "one"))
    publish(target, stage(root, ["b"], attempt=2), mode="append", publisher=plan_of(3, "other"))
    assert visible(target) == ["a", "b"]
    done = publish(target, stage(root, ["c"], attempt=3), mode="overwrite", publisher=plan_of(8, "one"))
    assert done.replaced == ("other:dag/monday/job",)


@pytest.mark.parametrize("vertex", ["total", "renamed since"])
def test_what_was_published_for_a_vertex_is_the_runs_own_whatever_it_is_called(
    root: ExchangePath, target: ExchangePath, vertex: str
) -> None:
    publish(target, stage(root, ["a"], attempt=1), mode="append", publisher=Publisher(f"dag/monday/job/{vertex}"))
    publish(target, stage(root, ["b"], attempt=2), mode="append", publisher=Publisher("dag/monday/job 2/total"))
    publish(target, stage(root, ["c"], attempt=3), mode="append", publisher=plan_of(1))
    assert visible(target) == ["b", "c"]


def test_what_a_job_published_before_it_was_renamed_is_replaced(root: ExchangePath, target: ExchangePath) -> None:
    for attempt, job in enumerate(("old", "kept"), start=1):
        publish(target, stage(root, [job], attempt), mode="append", publisher=Publisher(f"one:dag/monday/{job}", 1))
    renamed = Publisher("one:dag/monday/new", 2, "dag/monday/new", former=("one:dag/monday/old",))
    publish(target, stage(root, ["new"], attempt=3), mode="append", publisher=renamed)
    assert visible(target) == ["kept", "new"]


def test_overwrite_leaves_nothing_of_before(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "hour=1" / "foreign.parquet", b"old")
    publish(target, stage(root, ["a"]), mode="append", publisher=Publisher("run 1"))
    staged = stage(root, ["b"], attempt=2)
    second = publish(target, staged, mode="overwrite", publisher=Publisher("run 2"), replace_foreign=True)
    assert visible(target) == ["b"]
    assert (second.replaced, second.foreign_files, second.foreign_targets) == (("run 1",), 1, 0)
    again = publish(target, staged, mode="overwrite", publisher=Publisher("run 2"))
    assert (again.replaced, again.foreign_files) == ((), 0)


def test_an_overwrite_of_the_folder_above_other_targets_is_refused(root: ExchangePath, target: ExchangePath) -> None:
    for day in (1, 2):
        staged = stage(root, [f"day {day}"], attempt=day)
        publish(target / f"2026-01-0{day}", staged, mode="overwrite", publisher=Publisher("run"))
    write_atomic(target / "2026-01-01" / "by-hand.csv", b"mine")
    (empty,) = stage(root, ["empty day"], attempt=3)
    told = (
        f"sink {locate(target)}: holds 3 files that no publication to it knows (such as '2026-01-01/by-hand.csv'), "
        "published also to 2 folders in it ('2026-01-01'), and mode 'overwrite' would replace them. If a template has "
        "left out a part of the path, correct it and clear plan; else move the files away, or declare "
        "Files(..., replace_foreign=True)"
    )
    for refused in (
        lambda: publish(target, [empty], mode="overwrite", publisher=Publisher("other")),
        lambda: check_overwritten(target),
    ):
        with pytest.raises(TargetExistsError) as caught:
            refused()
        assert str(caught.value) == told
        assert not caught.value.restartable
    assert visible(target) == ["day 1", "day 2", "mine"]
    done = publish(target, [empty], mode="overwrite", publisher=Publisher("other"), replace_foreign=True)
    assert (done.foreign_files, done.foreign_targets) == (3, 2)
    assert visible(target) == ["empty day"]
    check_overwritten(target)
    check_overwritten(target / "nothing")
    publish(target, stage(root, ["next"], attempt=4), mode="overwrite", publisher=Publisher("next"))
    assert visible(target) == ["next"]


def test_what_is_put_but_not_published_yet_is_not_foreign(root: ExchangePath, target: ExchangePath) -> None:
    def die(step: str) -> None:
        if step.endswith(" placed"):
            raise KilledError

    with pytest.raises(KilledError):
        publish(target, stage(root, ["a"]), mode="overwrite", publisher=Publisher("run"), on_step=die)
    check_overwritten(target)


def test_append_keeps_what_others_wrote(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "hour=1" / "foreign.parquet", b"old")
    publish(target, stage(root, ["a"]), mode="append", publisher=Publisher("run 1"))
    publish(target, stage(root, ["b", "c"]), mode="append", publisher=Publisher("run 2"))
    assert visible(target) == ["a", "b", "c", "old"]
    record = read_commit(target)
    assert record is not None
    assert [entry.identity for entry in record.entries] == ["run 1", "run 2"]


@pytest.mark.parametrize("mode", ["overwrite", "append", "error"])
def test_a_cleared_run_replaces_its_own_files_in_every_mode(
    root: ExchangePath, target: ExchangePath, mode: CommitMode
) -> None:
    publish(target, stage(root, ["a", "b"], attempt=1), mode=mode, publisher=Publisher("run"))
    done = publish(target, stage(root, ["c"], attempt=2), mode=mode, publisher=Publisher("run"))
    assert done.changed
    assert visible(target) == ["c"]


def test_files_that_somebody_deleted_are_published_again(root: ExchangePath, target: ExchangePath) -> None:
    staged = stage(root, ["a", "b"])
    publish(target, staged, mode="append", publisher=Publisher("run"))
    record = read_commit(target)
    assert record is not None
    path = locate(target) / record.entries[0].files[0].name
    path.fs.rm_file(path.path)
    assert publish(target, staged, mode="append", publisher=Publisher("run")).changed
    assert visible(target) == ["a", "b"]


def test_mode_error_refuses_a_target_with_data_of_others(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "foreign.parquet", b"old")
    with pytest.raises(TargetExistsError, match=r"holds 1 file that run did not publish \(such as 'foreign.parquet'\)"):
        publish(target, stage(root, ["a"]), mode="error", publisher=Publisher("run"))
    assert visible(target) == ["old"]
    assert leftovers(target) == []


def test_mode_error_accepts_an_empty_folder(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "_SUCCESS", b"")
    publish(target, stage(root, ["a"]), mode="error", publisher=Publisher("run"))
    assert visible(target) == ["a"]


def test_a_run_without_files_empties_the_target(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["a"]), mode="overwrite", publisher=Publisher("run 1"))
    done = publish(target, [], mode="overwrite", publisher=Publisher("run 2"))
    assert (done.files, done.changed, visible(target)) == (0, True, [])
    assert read_bytes(target / "_SUCCESS") == b""


def test_a_missing_staged_file_leaves_the_old_output(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["old"]), mode="overwrite", publisher=Publisher("run 1"))
    staged = stage(root, ["a", "b"], attempt=2)
    gone = locate(staged[1].source)
    gone.fs.rm_file(gone.path)
    with pytest.raises(MissingFileError, match="no such file; its manifest lists it: clear the subtask") as caught:
        publish(target, staged, mode="overwrite", publisher=Publisher("run 2"))
    assert caught.value.path == str(gone)
    assert visible(target) == ["old"]


def test_a_staged_file_of_another_size_leaves_the_old_output(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["old"]), mode="overwrite", publisher=Publisher("run 1"))
    staged = stage(root, ["a", "b"], attempt=2)
    write_atomic(staged[1].source, b"longer")
    with pytest.raises(DamagedFileError, match="6 bytes, its manifest says 1; clear the subtask"):
        publish(target, staged, mode="overwrite", publisher=Publisher("run 2"))
    assert visible(target) == ["old"]


def test_an_unknown_mode_and_an_empty_identity_are_refused(tmp_path: Path) -> None:
    expected = "mode 'replace', expected one of overwrite, overwrite_partitions, append, error"
    with pytest.raises(ValueError, match=expected):
        publish(tmp_path / "t", [], mode="replace", publisher=Publisher("run"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected an identity that names the run"):
        publish(tmp_path / "t", [], mode="append", publisher=Publisher(""))


def test_the_root_of_a_file_system_is_no_target() -> None:
    with pytest.raises(CommitError, match="is the root of a file system; give the sink a folder of its own"):
        publish(Path("/"), [], mode="append", publisher=Publisher("run"))


def test_a_file_is_no_target(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    with pytest.raises(CommitError, match="is a file, expected a folder"):
        publish(tmp_path / "t", [], mode="append", publisher=Publisher("run"))


def test_a_damaged_record_stops_the_publication(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "_airflow_abs_commit", b"{}")
    with pytest.raises(DamagedFileError, match="_airflow_abs_commit: 2 bytes that do not end in a checksum"):
        publish(target, stage(root, ["a"]), mode="append", publisher=Publisher("run"))


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


def test_of_two_runs_at_once_one_wins_and_the_other_says_so(root: ExchangePath, target: ExchangePath) -> None:
    def second(step: str) -> None:
        if step == "recovered":
            with pytest.raises(TargetBusyError, match=r"run 1 is publishing to it right now; nothing was publish"):
                publish(target, stage(root, ["b"], attempt=2), mode="overwrite", publisher=Publisher("run 2"))

    publish(target, stage(root, ["a"]), mode="overwrite", publisher=Publisher("run 1"), on_step=second)
    assert visible(target) == ["a"]
    publish(target, stage(root, ["b"], attempt=2), mode="overwrite", publisher=Publisher("run 2"))
    assert visible(target) == ["b"]


def test_partitions_of_one_table_are_published_side_by_side(root: ExchangePath) -> None:
    table = root / "mart" / "revenue"

    def other(step: str) -> None:
        if step == "recovered":
            publish(table / "ds=2", stage(root, ["b"], attempt=2), mode="overwrite", publisher=Publisher("run 2"))

    publish(table / "ds=1", stage(root, ["a"]), mode="overwrite", publisher=Publisher("run 1"), on_step=other)
    assert (visible(table / "ds=1"), visible(table / "ds=2")) == (["a"], ["b"])


def test_a_reader_during_many_publications_never_sees_a_mixture(tmp_path: Path) -> None:
    target = tmp_path / "mart" / "t"
    runs = [stage(tmp_path, [f"{run}"] * 5, attempt=run) for run in range(30)]
    publish(target, runs[0], mode="overwrite", publisher=Publisher("run 0"))
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
        publish(target, runs[run], mode="overwrite", publisher=Publisher(f"run {run}"))
    over.set()
    reader.join(timeout=30)
    assert not reader.is_alive()
    whole = [contents for contents in seen if contents]
    assert whole
    assert all(len(contents) == 5 and len(set(contents)) == 1 for contents in whole)


@pytest.mark.parametrize("mode", ["overwrite", "append"])
@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("_spark_metadata/0", "is the sink of a stream, whose readers go by its log _spark_metadata and would not see"),
        ("_delta_log/0.json", "is a Delta table, whose readers go by its log _delta_log and would not see"),
    ],
)
def test_a_folder_that_is_read_by_another_log_is_left_alone(
    root: ExchangePath, target: ExchangePath, mode: CommitMode, log: str, told: str
) -> None:
    folder, name = log.split("/")
    write_atomic(target / folder / name, b"v1")
    write_atomic(target / "theirs.parquet", b"theirs")
    with pytest.raises(CommitError) as caught:
        publish(target, stage(root, ["a"]), mode=mode, publisher=Publisher("run"))
    assert f"sink {locate(target)}: {told}" in str(caught.value)
    assert visible(target) == ["theirs"]
    assert read_bytes(target / folder / name) == b"v1"
