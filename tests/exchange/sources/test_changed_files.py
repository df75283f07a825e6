"""Files of a source are those that were listed, or it is said of which that is not so."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pytest
from upath import UPath

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.sources.changed_files import find_changed
from airflow_abs.exchange.sources.listing import SourceFile, list_source_files
from airflow_abs.exchange.storage.locations import ExchangePath, locate


def put(root: ExchangePath, name: str, data: bytes = b"four") -> None:
    location = locate(root / name)
    location.fs.makedirs(location.parent.path, exist_ok=True)
    location.fs.pipe_file(location.path, data)


def listed(root: ExchangePath, path: str) -> list[SourceFile]:
    return list_source_files(root / path)


def changed(root: ExchangePath, path: str, files: list[SourceFile]) -> str | None:
    return find_changed(path, files, lambda name: root / name)


@pytest.mark.parametrize("path", ["t", "t/*", "t/day=1/b", "t/day=[1-2]/*"])
def test_files_that_nobody_changed_are_the_same(root: ExchangePath, path: str) -> None:
    for name in ("t/day=1/a", "t/day=1/b", "t/day=2/c d%20e", "t/other"):
        put(root, name)
    files = listed(root, path)
    assert files
    put(root, "t/day=1/new")
    assert changed(root, path, files) is None
    assert changed(root, path, []) is None


@pytest.mark.parametrize("path", ["t", "t/*", "t/a"])
def test_one_that_is_of_another_size_or_gone_is_named(root: ExchangePath, path: str) -> None:
    put(root, "t/a")
    files = listed(root, path)
    name = f"{uri_for_spark(root)}/t/a"
    put(root, "t/a", b"")
    assert changed(root, path, files) == f"{name} has 0 bytes, had 4"
    locate(root / "t/a").fs.rm(locate(root / "t/a").path)
    assert changed(root, path, files) == f"{name} is gone"


def test_one_of_the_same_size_that_was_written_again_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a")
    (file,) = files = listed(tmp_path, "a")
    os.utime(tmp_path / "a", (1, 1))
    assert changed(tmp_path, "a", files) == (
        f"{file.path} was rewritten with the same size (its version is 1.0, was {file.version})"
    )
    assert changed(tmp_path, "a", [SourceFile(file.path, 4)]) is None  # listed before versions were kept


@pytest.mark.slow
def test_an_object_is_known_by_its_etag_however_it_is_asked_for(s3_root: ExchangePath) -> None:
    put(s3_root, "t/a")
    (file,) = files = listed(s3_root, "t")
    put(s3_root, "t/a")  # the same again
    assert changed(s3_root, "t", files) is None
    put(s3_root, "t/a", b"five")
    assert f"{file.path} was rewritten with the same size" in str(changed(s3_root, "t", files))
    bare = SourceFile(file.path, file.bytes, file.version.strip('"'))
    put(s3_root, "t/a")
    assert changed(s3_root, "t", [bare]) is None


def test_each_file_is_one_request_and_a_store_that_tells_otherwise_of_one_file_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = UPath(f"memory://changed-{uuid.uuid4().hex}")
    for name in ("a", "b", "c"):
        put(root, f"t/{name}")
    files = listed(root, "t")
    fs = locate(root).fs
    asked: list[str] = []

    def note(name: str, answer: Any) -> None:
        original = getattr(type(fs), name)

        def call(self: Any, *args: Any, **options: Any) -> Any:
            asked.append(name)
            return answer(original(self, *args, **options))

        monkeypatch.setattr(type(fs), name, call)

    note("ls", lambda found: found)
    note("info", lambda found: found)
    assert changed(root, "t", files) is None
    assert asked == ["info"] * 3
    note("info", lambda found: {**found, "mtime": 5.0})
    assert changed(root, "t", files) is None
    assert asked.count("ls") == 1


def test_a_storage_that_does_not_answer_is_no_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "a")
    files = listed(tmp_path, "a")

    def refuse(*_args: Any, **_options: Any) -> Any:
        raise PermissionError("no")

    monkeypatch.setattr(type(locate(tmp_path).fs), "info", refuse)
    with pytest.raises(ExchangeUnreachableError, match="source a: cannot be listed"):
        changed(tmp_path, "a", files)
