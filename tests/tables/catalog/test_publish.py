"""A run's files become a table's once, wherever a publication ends; on a catalog in memory and real files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.exchange.errors import CommitConflictError, MissingFileError, SupersededError, TargetBusyError
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.hooks.storage import open_path
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.catalog.partitions import folder_of
from airflow_abs.tables.catalog.run_folder import RunFolder
from airflow_abs.tables.catalog.target import read_target
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.publication import publish_staged
from tests.tables.catalog.metastore import MemoryMetastore
from tests.tables.killing import Killed, count_calls

MODES = ("append", "overwrite", "overwrite_partitions")
CALLS: list[tuple[Any, str]] = [
    (MemoryMetastore, "run"),
    (MemoryMetastore, "rows"),
    (RunFolder, "_copy"),
    (RunFolder, "move"),
]


def target_of(table: MemoryMetastore, mode: Any = "append") -> TargetTable:
    return replace(read_target("d.t", table, storage="", mode=mode), kind="catalog")


def stage(folder: Path, *ids: int, to: str | None = None) -> StagedFile:
    """A file as a subtask leaves it, of a table that is partitioned by `day` if `to` says in which."""
    partition = "" if to is None else folder_of(["__partition_0"], ["v" + to]) + "/"
    name = f"s/subtask-0/attempt-1/t.sink/{partition}part-{hashlib.sha256(repr(ids).encode()).hexdigest()[:8]}.parquet"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "Name": [str(each) for each in ids]}), path)
    return StagedFile(path, name, path.stat().st_size, len(ids))


def publish(table: MemoryMetastore, target: TargetTable, staged: Sequence[StagedFile], run: str, **more: Any) -> Any:
    @contextmanager
    def catalog() -> Iterator[MemoryMetastore]:
        yield table

    access = TableAccess(lambda conn_id: {}, open_path, catalog)
    publisher = more.pop("publisher", Publisher(f"dag/{run}/job/t"))
    return publish_staged(target, staged, publisher=publisher, access=access, **more)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("after", [False, True])
def test_a_run_that_is_killed_at_any_call_and_tried_again_is_in_the_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, partitioned: bool, after: bool
) -> None:
    if mode == "overwrite_partitions" and not partitioned:
        return
    old, new = ("a", "b") if partitioned else (None, None)
    tried = 0
    for kill_at in range(1, 100):
        table = MemoryMetastore(tmp_path / f"t{kill_at}", ["day"] if partitioned else [])
        table.add(1, to=old)
        table.add(2, to=new)
        target = target_of(table, mode)
        staged = [stage(tmp_path / "s", 3, to=new), stage(tmp_path / "s", 4, to="new%/" if partitioned else None)]
        with monkeypatch.context() as patch:
            made = count_calls(patch, CALLS, kill_at, after=after)
            try:
                publish(table, target, staged, "monday")
            except Killed:
                tried += 1
        done = publish(table, target, staged, "monday")
        third = None if not partitioned else "new%/"
        kept = {"append": [(1, old), (2, new)], "overwrite": [], "overwrite_partitions": [(1, old)]}[mode]
        assert table.ids() == sorted([*kept, (3, new), (4, third)], key=str), f"killed at {made[-1]}"
        assert publish(table, target, staged, "monday")["changed"] is False
        assert done["rows"] == 2
        if len(made) < kill_at:
            break
    assert tried > 7


@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_cleared_replaces_what_it_published_before_wherever_that_is(tmp_path: Path, mode: str) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    table.add(1, to="a")
    target = target_of(table, mode)
    publish(table, target, [stage(tmp_path, 2, to="b"), stage(tmp_path, 3, to="c")], "monday")
    publish(table, target_of(table), [stage(tmp_path, 4, to="b")], "tuesday")
    publish(table, target, [stage(tmp_path, 5, to="c")], "monday")
    assert (
        table.ids()
        == {
            "append": [(1, "a"), (4, "b"), (5, "c")],
            "overwrite": [(5, "c")],
            "overwrite_partitions": [(1, "a"), (4, "b"), (5, "c")],
        }[mode]
    )


def test_a_run_that_others_have_overwritten_is_not_published_a_second_time(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    table.add(1)
    target = target_of(table, "overwrite")
    monday, tuesday = [stage(tmp_path, 2)], [stage(tmp_path, 3)]
    publish(table, target, monday, "monday")
    told = publish(table, target, tuesday, "tuesday")
    assert told["replaced"] == ("dag/monday/job/t",)
    assert told["location"] == table.location
    assert publish(table, target, monday, "monday")["changed"] is False
    assert table.ids() == [(3, None)]


def test_what_is_overwritten_stays_where_it_was_for_those_who_still_read_it(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    table.add(1)
    before = table.list_files([table.location])
    publish(table, target_of(table, "overwrite"), [stage(tmp_path, 2)], "monday")
    assert table.location.startswith(f"file:{tmp_path}/t/_airflow_abs/")
    assert table.list_files([f"file:{tmp_path}/t"]) == before
    publish(table, target_of(table), [stage(tmp_path, 3)], "tuesday")
    assert table.ids() == [(2, None), (3, None)]


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_what_others_add_meanwhile_is_not_overwritten_unseen(tmp_path: Path, mode: str) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    table.add(1, to="a")
    staged = [stage(tmp_path, 2, to="a")]

    def add(step: str) -> None:
        if step == "begun":
            table.add(9, to="a")

    with pytest.raises(CommitConflictError, match="others changed it while this run was about to overwrite"):
        publish(table, target_of(table, mode), staged, "monday", on_step=add)
    assert table.ids() == [(1, "a"), (9, "a")]
    publish(table, target_of(table, mode), staged, "monday")
    assert table.ids() == [(2, "a")]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_what_others_add_at_the_very_moment_is_told_and_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, partitioned: bool
) -> None:
    """Between the last look and the change nothing locks them out."""
    if mode == "append" or (mode == "overwrite_partitions" and not partitioned):
        return
    day = "a" if partitioned else None
    table = MemoryMetastore(tmp_path / "t", ["day"] if partitioned else [])
    table.add(1, to=day)
    staged = [stage(tmp_path / "s", 2, to=day)]
    target = target_of(table, mode)
    real = MemoryMetastore.run

    def run(self: MemoryMetastore, statement: str) -> None:
        if "SET LOCATION" in statement:
            self.add(9, to=day)
        real(self, statement)

    with monkeypatch.context() as patch, pytest.raises(CommitConflictError) as told:
        patch.setattr(MemoryMetastore, "run", run)
        publish(table, target, staged, "monday")
    added = f"file:{tmp_path}/t/day=a/other-1.parquet" if partitioned else f"file:{tmp_path}/t/other-2.parquet"
    assert str(told.value).startswith(
        "table spark_catalog.d.h: others added 1 file to it at the very moment when this run overwrote it. The table "
        f"holds the run's rows now, and not those of {added} (nothing is deleted)."
    )
    assert Path(added.removeprefix("file:")).exists()
    table.add(9, to=day)
    assert publish(table, target, staged, "monday")["changed"] is True
    assert table.ids() == [(2, day), (9, day)]


def test_partitions_that_others_add_to_at_the_very_moment_are_not_dropped(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    table.add(1, to="a")
    table.add(2, to="b")

    def add(step: str) -> None:
        if step == "located":
            table.add(9, to="b")

    with pytest.raises(CommitConflictError, match="others added 1 file to it at the very moment"):
        publish(table, target_of(table, "overwrite"), [stage(tmp_path, 3, to="a")], "monday", on_step=add)
    assert table.ids() == [(2, "b"), (3, "a"), (9, "b")]


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_that_are_appended_to_where_the_table_was_are_not_called_published(
    tmp_path: Path, partitioned: bool
) -> None:
    day = "a" if partitioned else None
    table = MemoryMetastore(tmp_path / "t", ["day"] if partitioned else [])
    table.add(1, to=day)
    target, staged = target_of(table), [stage(tmp_path / "s", 2, to=day)]

    def overwrite(step: str) -> None:
        if step == "copied":
            publish(table, target_of(table, "overwrite"), [stage(tmp_path / "o", 3, to=day)], "tuesday")

    with pytest.raises(TargetBusyError, match="others changed where its files are while this run appended to it"):
        publish(table, target, staged, "monday", on_step=overwrite)
    assert table.ids() == [(3, day)]
    assert publish(table, target, staged, "monday")["changed"] is True
    assert table.ids() == [(2, day), (3, day)]


@pytest.mark.parametrize("later", [False, True])
def test_of_two_runs_that_overwrite_at_once_one_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: bool
) -> None:
    """Monday has looked for the last time when Tuesday changes the table: Tuesday ends before Monday changes it, or
    `later`."""
    table = MemoryMetastore(tmp_path / "t")
    table.add(1)
    target, real, told = target_of(table, "overwrite"), MemoryMetastore.run, []

    def run(self: MemoryMetastore, statement: str) -> None:
        if "SET LOCATION" not in statement:
            return real(self, statement)
        monkeypatch.setattr(MemoryMetastore, "run", real)
        try:
            publish(table, target, [stage(tmp_path, 3)], "tuesday", on_step=lambda step: at(step, statement))
        except CommitConflictError as error:
            told.append(str(error))
        return None if later else real(self, statement)

    def at(step: str, statement: str) -> None:
        if later and step == "located":
            real(table, statement)

    monkeypatch.setattr(MemoryMetastore, "run", run)
    try:
        publish(table, target, [stage(tmp_path, 2)], "monday")
    except CommitConflictError as error:
        told.append(str(error))
    words = "it does not hold this run's rows" if later else "the run dag/tuesday/job/t published to it at the very"
    assert words in "".join(told)
    assert table.ids() == [(2, None)]


def test_an_overwrite_whose_change_the_catalog_forgets_is_not_called_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sets a property of a table writes all of it, with the location as it was a moment before."""
    table = MemoryMetastore(tmp_path / "t")
    table.add(1)
    before = table.location

    def alter(step: str) -> None:
        if step == "located":
            table.location = before

    with pytest.raises(
        CommitConflictError, match="others changed where its files are at the very moment when this run"
    ):
        publish(table, target_of(table, "overwrite"), [stage(tmp_path, 2)], "monday", on_step=alter)
    assert table.ids() == [(1, None)]


def test_a_table_remembers_so_many_runs_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.tables.catalog.marks._REMEMBERED", 2)
    table = MemoryMetastore(tmp_path / "t")
    target = target_of(table)
    for number in range(5):
        publish(table, target, [stage(tmp_path, number)], f"run-{number}")
    assert len(table.properties) == 3  # two, and the last
    assert table.ids() == [(number, None) for number in range(5)]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_run_whose_name_spark_would_hide_is_published_once(tmp_path: Path, mode: str) -> None:
    table = MemoryMetastore(tmp_path / "t")
    for number in range(2):
        done = publish(table, target_of(table, mode), [stage(tmp_path, 1)], "hourly_token")
        assert done["changed"] is (number == 0)
    assert table.ids() == [(1, None)]


def test_a_mark_of_another_run_that_spark_hides_keeps_nobody_from_publishing(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    table.properties["airflow-abs.run.0123456789abcdef"] = "done abc 1 dag/hourly/job/t"
    publish(table, target_of(table), [stage(tmp_path, 1)], "monday")
    assert table.ids() == [(1, None)]


def test_a_mark_of_ones_own_that_spark_hides_is_told_with_what_to_do(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    name = f"airflow-abs.run.{hashlib.sha256(b'dag/hourly/job/t').hexdigest()[:16]}"
    table.properties[name] = "done abc 1 dag/hourly/job/t"
    with pytest.raises(TableError) as refused:
        publish(table, target_of(table), [stage(tmp_path, 1)], "hourly")
    assert str(refused.value).startswith(
        f"table d.t: its property {name}, which says how far this run came with publishing, reads "
        "'*********(redacted)'; expected a state"
    )
    assert f"UNSET TBLPROPERTIES ('{name}')" in str(refused.value)
    assert table.ids() == []


@pytest.mark.parametrize("mode", ["append", "overwrite"])
@pytest.mark.parametrize("at", ["", "begun", "copied", "placed", "done"])
def test_of_two_plans_of_a_run_the_later_one_is_in_the_table(tmp_path: Path, mode: str, at: str) -> None:
    table = MemoryMetastore(tmp_path / "t")
    target = target_of(table, mode)

    def publish_later(step: str) -> None:
        if step == at:
            publish(table, target, [stage(tmp_path, 2)], "", publisher=Publisher("dag/monday/job/t", 2))

    publish_later("")
    if at == "done" or (at == "placed" and mode == "overwrite"):
        return
    with pytest.raises(SupersededError, match=r"a later plan of this run .* has published to it, number 2, and this"):
        earlier = Publisher("dag/monday/job/t", 1)
        publish(table, target, [stage(tmp_path, 1)], "", publisher=earlier, on_step=publish_later)
    assert table.ids() == [(2, None)]
    assert publish(table, target, [stage(tmp_path, 2)], "", publisher=Publisher("dag/monday/job/t", 2))["rows"] == 1
    assert table.ids() == [(2, None)]


@pytest.mark.parametrize("moved", [0, 1])
def test_an_earlier_plan_that_is_killed_while_a_later_one_publishes_leaves_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    """Whatever it still does after the later one is done, nobody comes after it to see to."""
    table = MemoryMetastore(tmp_path / "t")
    target = target_of(table)
    real = RunFolder.move

    def move_late(folder: RunFolder, files: Any, folders: Any) -> None:
        monkeypatch.setattr(RunFolder, "move", real)
        real(folder, files[:moved], folders)
        publish(table, target, [stage(tmp_path, 2)], "", publisher=Publisher("dag/monday/job/t", 2))
        real(folder, files[moved:], folders)
        raise Killed

    monkeypatch.setattr(RunFolder, "move", move_late)
    with pytest.raises((Killed, SupersededError)):
        staged = [stage(tmp_path, 1), stage(tmp_path, 3)]
        publish(table, target, staged, "", publisher=Publisher("dag/monday/job/t", 1))
    assert table.ids() == [(2, None)]


def test_a_run_that_an_earlier_version_marked_under_a_vertex_replaces_those_rows(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    publish(table, target_of(table), [stage(tmp_path, 1)], "monday")
    ((name, text),) = table.properties.items()
    before = f"{text.rpartition(' ')[0].rpartition(' ')[0]} dag/monday/job/t"
    table.properties = {name.rpartition(".")[0]: before}
    own = Publisher("prod:dag/monday/job", 3, "dag/monday/job", ("total",))
    publish(table, target_of(table), [stage(tmp_path, 2)], "", publisher=own)
    assert table.ids() == [(2, None)]
    assert len(table.properties) == 1


def test_what_a_job_published_before_it_was_renamed_is_replaced(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    for row, job in enumerate(("old", "kept"), start=1):
        publish(table, target_of(table), [stage(tmp_path, row)], "", publisher=Publisher(f"prod:dag/monday/{job}", 1))
    renamed = Publisher("prod:dag/monday/new", 2, "dag/monday/new", former=("prod:dag/monday/old",))
    for _ in range(2):
        publish(table, target_of(table), [stage(tmp_path, 3)], "", publisher=renamed)
        assert table.ids() == [(2, None), (3, None)]


def test_partitions_of_the_same_values_in_other_words_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    table.add(1, to="7")
    table.add(2, to="07")
    same = "airflow_abs.tables.catalog.publish.as_written"
    monkeypatch.setattr(same, lambda table, catalog, types, listed: [("7",)] * len(listed))
    with pytest.raises(TableError, match="two of its partitions have the same values in other words, such as 7 and 07"):
        publish(table, target_of(table), [stage(tmp_path, 3, to="7")], "monday")


def test_a_mark_that_the_catalog_forgets_is_set_again_and_at_last_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = MemoryMetastore(tmp_path / "t")
    monkeypatch.setattr(MemoryMetastore, "run", lambda self, statement: None)
    with pytest.raises(TargetBusyError, match="others keep altering it, and the catalog lost 20 times"):
        publish(table, target_of(table), [stage(tmp_path, 2)], "monday")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"created": "2026-11-24T00:00:00Z"}, "was recreated"),
        ({"columns": ["hour"]}, "is partitioned in another way"),
    ],
)
def test_a_table_that_is_another_one_by_now_is_refused(tmp_path: Path, change: Any, words: str) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    target = target_of(table)
    with pytest.raises(TableError, match=f"{words} since this run was planned"):
        publish(replace(table, **change), target, [stage(tmp_path, 2, to="a")], "monday")


def test_a_table_that_has_other_columns_by_now_is_refused(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    target = replace(target_of(table), schema='{"type": "struct", "fields": []}')
    with pytest.raises(TableError, match="has other columns since this run was planned"):
        publish(table, target, [stage(tmp_path, 2)], "monday")


def test_an_empty_text_as_a_partition_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t", ["day"])
    with pytest.raises(TableError, match="'day' is the empty string, which Spark takes for NULL; nothing"):
        publish(table, target_of(table), [stage(tmp_path, 2, to="")], "monday")
    assert table.properties == {}


def test_a_file_that_is_gone_is_not_half_published(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    first, second = stage(tmp_path, 2), stage(tmp_path, 3)
    second.source.unlink()  # type: ignore[attr-defined]
    with pytest.raises(MissingFileError):
        publish(table, target_of(table), [first, second], "monday")
    assert table.ids() == []


def test_a_run_without_rows_leaves_what_is_there_unless_it_overwrites_all(tmp_path: Path) -> None:
    table = MemoryMetastore(tmp_path / "t")
    table.add(1)
    assert publish(table, target_of(table), [], "monday")["changed"] is False
    assert table.ids() == [(1, None)]
    assert publish(table, target_of(table, "overwrite"), [], "monday")["changed"] is True
    assert table.ids() == []
