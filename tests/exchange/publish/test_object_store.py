"""Publishing on an object store: the record decides."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator

import pytest
from upath import UPath

from airflow_abs.exchange.errors import CommitError, ExchangeUnreachableError, MissingFileError, TargetBusyError
from airflow_abs.exchange.publish.object_store import StoreCommit
from airflow_abs.exchange.publish.publication import publish, read_commit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import CommitEntry, CommitRecord, PublishedFile
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic, write_json
from tests.exchange.publish.commits import KilledError, stage, visible
from tests.s3_server import S3Server


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

    publish(target, stage(bucket, ["old 1", "old 2"]), mode="overwrite", publisher=Publisher("run 1"))
    seen: list[list[str]] = []
    publish(
        target,
        stage(bucket, ["new 1", "new 2"], attempt=2),
        mode="overwrite",
        publisher=Publisher("run 2"),
        on_step=lambda step: seen.append(recorded()),
    )
    assert [contents for number, contents in enumerate(seen) if number == 0 or contents != seen[number - 1]] == [
        ["old 1", "old 2"],
        ["new 1", "new 2"],
    ]


def test_a_publisher_that_was_taken_over_while_it_copied_harms_nothing(bucket: UPath) -> None:
    """Run 1 sleeps beyond its lease; run 2 takes over and is about to record when run 1 goes on."""
    target, clock = locate(bucket / "mart" / "t"), [1000.0]
    first, second = stage(bucket, ["a1", "a2"], attempt=1), stage(bucket, ["b1", "b2"], attempt=2)
    placed, may_record = threading.Event(), threading.Event()

    def stop_before_recording(step: str) -> None:
        if step.startswith("part-00001"):
            placed.set()
            assert may_record.wait(60)

    def sleep_beyond_the_lease(step: str) -> None:
        if step.startswith("part-00001"):
            clock[0] += 601
            other.start()
            assert placed.wait(60)

    def publish_second() -> None:
        StoreCommit(target, Publisher("run 2"), stop_before_recording, now=lambda: clock[0], threads=1).publish(
            second, "overwrite"
        )

    other = threading.Thread(target=publish_second)
    with pytest.raises(TargetBusyError, match="run 2 is publishing to it right now"):
        StoreCommit(target, Publisher("run 1"), sleep_beyond_the_lease, now=lambda: clock[0], threads=1).publish(
            first, "overwrite"
        )
    may_record.set()
    other.join(60)
    record = read_commit(target)
    assert record is not None
    assert [read_bytes(target / file.name) for file in record.entries[0].files] == [b"b1", b"b2"]
    assert visible(target) == ["b1", "b2"]


def test_a_repeated_publication_that_fails_deletes_nothing(root: ExchangePath) -> None:
    """One of its published files is gone and the exchange was released; somebody else has added files since."""
    target, staged = root / "mart" / "t", stage(root, ["a", "b"])
    write_atomic(target / "ours.parquet", b"before us")
    publish(target, staged, mode="overwrite", publisher=Publisher("run"), replace_foreign=True)
    record = read_commit(target)
    assert record is not None
    write_atomic(target / "ours.parquet", b"somebody else's")
    for lost in (locate(target) / record.entries[0].files[0].name, *(locate(file.source) for file in staged)):
        lost.fs.rm_file(lost.path)
    for _ in range(2):
        with pytest.raises(MissingFileError, match="clear the subtask that wrote it"):
            publish(target, staged, mode="overwrite", publisher=Publisher("run"), replace_foreign=True)
        assert visible(target) == ["b", "somebody else's"]


def test_what_another_run_wrote_since_a_killed_publisher_saw_it_stays(bucket: UPath) -> None:
    target = bucket / "t"
    write_atomic(target / "data.parquet", b"old")
    write_atomic(target / "more.parquet", b"old, too")

    def die(step: str) -> None:
        if step == "recorded":
            write_atomic(target / "data.parquet", b"written after the commit")
            raise KilledError(step)

    with pytest.raises(KilledError):
        publish(
            target,
            stage(bucket, ["a"]),
            mode="overwrite",
            publisher=Publisher("run 1"),
            replace_foreign=True,
            on_step=die,
        )
    publish(target, stage(bucket, ["b"], attempt=2), mode="append", publisher=Publisher("run 2"))
    assert visible(target) == ["a", "b", "written after the commit"]


def test_what_a_version_without_a_log_published_counts(bucket: UPath) -> None:
    target = bucket / "t"
    before = CommitRecord((CommitEntry("run 1", "digest", (PublishedFile("part-0", 3, 1, "x"),)),))
    write_atomic(target / "part-0", b"old")
    write_json(target / "_airflow_abs_commit", before.to_json())
    assert read_commit(target) == before
    publish(target, stage(bucket, ["new"]), mode="overwrite", publisher=Publisher("run 1"))
    assert visible(target) == ["new"]
    assert not locate(target).fs.exists(str(locate(target / "_airflow_abs_commit").path))


def test_the_claim_is_renewed_while_files_are_copied(bucket: UPath) -> None:
    target, clock = locate(bucket / "t"), [0.0]
    conflicts = []

    def let_time_pass(step: str) -> None:
        if step.startswith("part-"):
            clock[0] += 400  # of a lease of 600 s: without renewals it would be over after the second file
            with pytest.raises(TargetBusyError) as caught:
                StoreCommit(target, Publisher("run 2"), lambda step: None, now=lambda: clock[0]).publish(
                    [], "overwrite"
                )
            conflicts.append(str(caught.value))

    staged = stage(bucket, ["a", "b", "c", "d"])
    StoreCommit(target, Publisher("run 1"), let_time_pass, now=lambda: clock[0], threads=1).publish(staged, "overwrite")
    assert len(conflicts) == 4


def test_a_store_that_refuses_is_named(bucket: UPath, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Access Denied")

    staged = stage(bucket, ["a"])
    monkeypatch.setattr(type(bucket.fs), "cp_file", refuse)
    with pytest.raises(
        CommitError, match=r"cannot be published \(PermissionError: .*rights to read, write, list and d"
    ):
        publish(bucket / "t", staged, mode="append", publisher=Publisher("run"))


def test_a_reader_whom_the_store_refuses_gets_an_error_of_the_exchange(s3: S3Server, s3_root: UPath) -> None:
    publish(s3_root / "t", stage(s3_root, ["row"]), mode="overwrite", publisher=Publisher("run 1"))
    s3.answer(403, "AccessDenied", ["LIST", "GET"], times=None)
    with pytest.raises(ExchangeUnreachableError, match=r"/t: cannot be read \(PermissionError: "):
        read_commit(s3_root / "t")
