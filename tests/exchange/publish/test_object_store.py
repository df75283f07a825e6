"""Publishing on an object store: the record decides."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from upath import UPath

from airflow_abs.exchange.errors import (
    CommitError,
)
from airflow_abs.exchange.publish.publication import publish, read_commit
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic
from tests.exchange.publish.commits import stage, visible


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
