"""Who lists a folder while a run publishes to it finds the old output or the new one, at every step."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.publish import published_files
from airflow_abs.exchange.publish.publication import CommitMode, publish
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.sources import listing
from airflow_abs.exchange.sources.listing import list_source_files
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import read_bytes, write_atomic
from tests.exchange.publish.commits import KilledError, stage


def read(target: ExchangePath) -> list[str]:
    """The contents of what a source finds there."""
    location = locate(target)
    names = [file.path.rpartition("/")[2] for file in list_source_files(target)]
    return sorted(bytes(location.fs.cat_file((location / name).path)).decode() for name in names)


@pytest.mark.parametrize(("mode", "after"), [("overwrite", ["c"]), ("append", ["a", "b", "c", "theirs"])])
def test_at_every_step_there_is_one_output(
    root: ExchangePath, target: ExchangePath, mode: CommitMode, after: list[str]
) -> None:
    publish(target, stage(root, ["a", "b"]), mode="append", publisher=Publisher("first"))
    write_atomic(target / "theirs.parquet", b"theirs")
    seen = []
    publish(
        target,
        stage(root, ["c"], attempt=2),
        mode=mode,
        publisher=Publisher("second"),
        replace_foreign=True,
        on_step=lambda _: seen.append(read(target)),
    )
    before = ["a", "b", "theirs"]
    turned = seen.index(after)
    assert seen == [before] * turned + [after] * (len(seen) - turned)
    assert (len(seen) > 3, turned > 0, read(target)) == (True, True, after)


def test_what_a_killed_publisher_has_put_does_not_count(root: ExchangePath, target: ExchangePath) -> None:
    publish(target, stage(root, ["a"]), mode="overwrite", publisher=Publisher("first"))
    last = "recovered" if locate(target).is_local else "placed"  # a folder is built beside the target

    def kill(step: str) -> None:
        if step.endswith(last):
            raise KilledError

    with pytest.raises(KilledError):
        publish(target, stage(root, ["b", "c"], attempt=2), mode="append", publisher=Publisher("second"), on_step=kill)
    assert read(target) == ["a"]


def test_a_folder_that_is_published_to_while_it_is_listed_is_listed_again(
    root: ExchangePath, target: ExchangePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(target, stage(root, ["a", "b"]), mode="overwrite", publisher=Publisher("first"))
    real = listing._list_below
    tries: list[int] = []

    def list_below(folder):  # type: ignore[no-untyped-def]
        found = real(folder)
        if len(tries) < 3:
            tries.append(len(tries))
            staged = stage(root, [f"c{len(tries)}"], attempt=10 + len(tries))
            publish(target, staged, mode="overwrite", publisher=Publisher(f"run {len(tries)}"))
        return found

    monkeypatch.setattr(listing, "_list_below", list_below)
    assert read(target) == ["c3"]
    monkeypatch.setattr(published_files, "_TRIES", 2)
    tries.clear()
    with pytest.raises(ExchangeUnreachableError, match="was published to 2 times while it was listed; expected a mom"):
        read(target)
    assert read_bytes(target / "_SUCCESS") == b""


def test_files_that_somebody_adds_all_the_time_are_no_publications(
    root: ExchangePath, target: ExchangePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(target, stage(root, ["a"]), mode="overwrite", publisher=Publisher("first"))
    real = listing._list_below
    added: list[str] = []

    def list_below(folder):  # type: ignore[no-untyped-def]
        found = real(folder)
        added.append(f"theirs-{len(added)}")
        write_atomic(target / f"{added[-1]}.parquet", added[-1].encode())
        return found

    monkeypatch.setattr(listing, "_list_below", list_below)
    assert read(target)[0] == "a"
    assert len(added) <= 2
