"""Sinks with table partitions: only those that a run writes are replaced, on every kind of storage."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from airflow_abs.exchange.publish.publication import StagedFile, publish, read_commit
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import CommitMode, partition_of
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic
from tests.exchange.publish.commits import leftovers, visible


def stage(root: ExchangePath, contents: Mapping[str, str], run: str, attempt: int = 1) -> list[StagedFile]:
    """One file for each partition, as a subtask of that run wrote it."""
    staged = []
    for partition, content in contents.items():
        name = f"by_day/subtask-0/attempt-{attempt}/by_day.sink/{partition}/part-0.parquet"
        path = root / "staged" / run / f"{attempt}" / partition / "part-0.parquet"
        write_atomic(path, content.encode())
        staged.append(StagedFile(path, name, len(content), rows=1))
    return staged


def put(
    root: ExchangePath, target: ExchangePath, run: str, mode: CommitMode = "overwrite_partitions", **days: str
) -> bool:
    """Publish one file for each day; whether anything changed."""
    staged = stage(root, {f"day={day.removeprefix('d')}": content for day, content in days.items()}, run)
    return publish(target, staged, mode=mode, publisher=Publisher(run)).changed


def folders(target: ExchangePath) -> set[str]:
    location = locate(target)
    location.forget_listings()
    names = [location.at(path).relative_to(location) for path in location.fs.find(location.path)]
    return {name.rpartition("/")[0] for name in names if not name.startswith("_")}


def test_files_lie_in_the_folders_of_their_partitions(root: ExchangePath, target: ExchangePath) -> None:
    put(root, target, "one", "overwrite", d1="a", d2="b")
    assert folders(target) == {"day=1", "day=2"}
    assert visible(target) == ["a", "b"]
    assert leftovers(target) == []


def test_only_the_partitions_that_are_written_are_replaced(root: ExchangePath, target: ExchangePath) -> None:
    write_atomic(target / "day=1" / "foreign.parquet", b"foreign 1")
    write_atomic(target / "day=2" / "foreign.parquet", b"foreign 2")
    write_atomic(target / "plain.parquet", b"plain")
    put(root, target, "one", d1="a", d3="c")
    assert visible(target) == ["a", "c", "foreign 2", "plain"]
    put(root, target, "two", d3="C", d4="D")
    assert visible(target) == ["C", "D", "a", "foreign 2", "plain"]
    record = read_commit(target)
    assert record is not None
    assert {entry.identity: [partition_of(file.name) for file in entry.files] for entry in record.entries} == {
        "one": ["day=1"],
        "two": ["day=3", "day=4"],
    }
    assert leftovers(target) == []


def test_who_was_replaced_in_part_is_told_and_in_whole_forgotten(root: ExchangePath, target: ExchangePath) -> None:
    put(root, target, "one", d1="a", d2="b")
    put(root, target, "two", d2="B")
    staged = stage(root, {"day=1": "x", "day=2": "y"}, "three")
    assert publish(target, staged, mode="overwrite_partitions", publisher=Publisher("three")).replaced == ("one", "two")
    record = read_commit(target)
    assert record is not None
    assert [entry.identity for entry in record.entries] == ["three"]


def test_a_repetition_changes_nothing_unless_another_run_has_replaced_some_of_it(
    root: ExchangePath, target: ExchangePath
) -> None:
    assert put(root, target, "one", d1="a", d2="b")
    assert not put(root, target, "one", d1="a", d2="b")
    put(root, target, "two", d2="B")
    assert put(root, target, "one", d1="a", d2="b")  # the last commit wins, as with `overwrite`
    assert visible(target) == ["a", "b"]
    assert not put(root, target, "one", d1="a", d2="b")


def test_a_run_that_is_cleared_takes_back_what_it_does_not_write_any_more(
    root: ExchangePath, target: ExchangePath
) -> None:
    put(root, target, "one", d1="a", d2="b")
    put(root, target, "two", d3="c")
    again = stage(root, {"day=1": "A"}, "one", attempt=2)
    publish(target, again, mode="overwrite_partitions", publisher=Publisher("one"))
    assert visible(target) == ["A", "c"]


@pytest.mark.parametrize("mode", ["overwrite", "append"])
def test_other_modes_take_partitions_as_any_files(root: ExchangePath, target: ExchangePath, mode: CommitMode) -> None:
    put(root, target, "one", d1="a", d2="b")
    put(root, target, "two", mode, d2="B")
    assert visible(target) == (["B"] if mode == "overwrite" else ["B", "a", "b"])
