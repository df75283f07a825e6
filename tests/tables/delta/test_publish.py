"""A run's rows are in the table once: repeated, cleared, overtaken, or eight at a time."""

from __future__ import annotations

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable as Library
from deltalake import write_deltalake
from deltalake.exceptions import CommitFailedError

from airflow_abs.exchange.errors import CommitConflictError, DamagedFileError, MissingFileError
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.run_publication import RUN_PROPERTY
from tests.tables.delta.staging import SCHEMA, create, edit_log, publish, row, rows_of, stage, target_of

NULL_FOLDER = "__partition_0=__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "t"


def test_a_run_is_one_version_and_a_repetition_none(table: Path, tmp_path: Path) -> None:
    create(table, [row(1, "old")])
    staged = [stage(tmp_path / "a", [row(2), row(3)]), stage(tmp_path / "a", [row(4)])]
    done = publish(target_of(table), staged, "monday")
    assert done == {
        "target": str(table),
        "identity": "dag/monday/job/t",
        "files": 2,
        "rows": 3,
        "bytes": sum(file.bytes for file in staged),
        "changed": True,
        "replaced": (),
        "foreign_files": 0,
        "foreign_targets": 0,
        "version": 1,
    }
    again = publish(target_of(table), staged, "monday")
    assert (again["changed"], again["version"]) == (False, 1)
    assert rows_of(table) == [(1, "old"), (2, "north"), (3, "north"), (4, "north")]
    assert Library(table).version() == 1


def test_a_cleared_run_replaces_its_rows_among_those_of_others(table: Path, tmp_path: Path) -> None:
    create(table)
    publish(target_of(table), [stage(tmp_path / "a", [row(1)])], "monday")
    publish(target_of(table), [stage(tmp_path / "b", [row(2)])], "tuesday")
    publish(target_of(table), [stage(tmp_path / "c", [row(3)])], "monday")
    assert rows_of(table) == [(2, "north"), (3, "north")]
    publish(target_of(table), [], "monday")
    assert rows_of(table) == [(2, "north")]
    assert publish(target_of(table), [], "monday")["changed"] is False
    publish(target_of(table), [stage(tmp_path / "a", [row(1)])], "monday")
    assert rows_of(table) == [(1, "north"), (2, "north")]


def test_a_run_of_which_rows_were_compacted_is_not_replaced(table: Path, tmp_path: Path) -> None:
    create(table)
    staged = [stage(tmp_path / "a", [row(1)]), stage(tmp_path / "a", [row(2)])]
    publish(target_of(table), staged, "monday")
    Library(table).optimize.compact()
    assert publish(target_of(table), staged, "monday")["changed"] is False
    with pytest.raises(TableError, match="published 2 files of which others have since rewritten or deleted some"):
        publish(target_of(table), [stage(tmp_path / "b", [row(3)])], "monday")
    assert rows_of(table) == [(1, "north"), (2, "north")]


def test_a_partition_that_was_compacted_may_be_overwritten_by_its_run(table: Path, tmp_path: Path) -> None:
    create(table, partition_by=["region"])
    target = target_of(table, "overwrite_partitions")
    staged = [stage(tmp_path / "a", [row(number)], "__partition_0=vnorth") for number in (1, 2)]
    publish(target, staged, "monday")
    Library(table).optimize.compact()
    publish(target, [stage(tmp_path / "b", [row(3)], "__partition_0=vnorth")], "monday")
    assert rows_of(table) == [(3, "north")]


def test_a_run_whose_name_has_expired_is_found_by_its_files(table: Path, tmp_path: Path) -> None:
    expiring = {"delta.setTransactionRetentionDuration": "interval 1 days"}
    create(table, configuration=expiring)
    staged = [stage(tmp_path / "a", [row(1)])]
    publish(target_of(table), staged, "monday")

    def forget(action: dict[str, object]) -> None:
        if "txn" in action:
            action.clear()
            action["commitInfo"] = {}

    edit_log(table, 1, forget)
    assert Library(table).transaction_version("dag/monday/job/t") is None
    assert publish(target_of(table), staged, "monday")["changed"] is False
    assert rows_of(table) == [(1, "north")]


@pytest.mark.parametrize("forgotten", ["its name", "its entry of the log"])
def test_a_commit_that_is_repeated_after_its_name_expired_overwrites_no_later_run(
    table: Path, tmp_path: Path, forgotten: str
) -> None:
    create(table, configuration={"delta.setTransactionRetentionDuration": "interval 1 days"})
    target, staged = target_of(table, "overwrite"), [stage(tmp_path / "a", [row(1)])]
    publish(target, staged, "monday")
    publish(target, [stage(tmp_path / "b", [row(2)])], "tuesday")

    def forget(action: dict[str, Any]) -> None:
        if "txn" in action:
            action.clear()
            action["commitInfo"] = {}
        elif "commitInfo" in action and forgotten == "its entry of the log":
            action["commitInfo"] = {}

    edit_log(table, 1, forget)
    if forgotten == "its name":
        assert publish(target, staged, "monday")["changed"] is False
    else:
        Library(table).create_checkpoint()
        for version in (0, 1):
            (table / "_delta_log" / f"{version:020d}.json").unlink()
        with pytest.raises(TableError, match="names of runs and entries of the log have expired since this run was pl"):
            publish(target, staged, "monday")
    assert rows_of(table) == [(2, "north")]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_run_that_a_restore_took_back_is_published_again_and_once(table: Path, tmp_path: Path, mode: str) -> None:
    create(table, [row(0, "old")])
    target, staged = target_of(table, mode), [stage(tmp_path / "a", [row(1)])]  # type: ignore[arg-type]
    kept = [(0, "old")] if mode == "append" else []
    publish(target, staged, "monday")
    for _ in range(2):
        Library(table).restore(0)
        assert rows_of(table) == [(0, "old")]
        for changed in (True, False):
            assert publish(target, staged, "monday")["changed"] is changed
            assert rows_of(table) == [*kept, (1, "north")]
    Library(table).restore(0)
    publish(target, [stage(tmp_path / "b", [row(2)])], "monday")
    assert rows_of(table) == [*kept, (2, "north")]


def test_a_run_that_a_restore_brought_back_is_there(table: Path, tmp_path: Path) -> None:
    create(table)
    target = target_of(table, "overwrite")
    monday, tuesday = [stage(tmp_path / "a", [row(1)])], [stage(tmp_path / "b", [row(2)])]
    publish(target, monday, "monday")
    publish(target, tuesday, "tuesday")
    assert publish(target, monday, "monday")["changed"] is False  # others have overwritten it since
    Library(table).restore(1)
    assert publish(target, monday, "monday")["changed"] is False
    assert rows_of(table) == [(1, "north")]
    assert publish(target, tuesday, "tuesday")["changed"] is True
    assert rows_of(table) == [(2, "north")]


def test_rows_of_before_a_run_was_cleared_that_a_restore_brought_back_are_replaced(table: Path, tmp_path: Path) -> None:
    create(table)
    target, first, second = target_of(table), [stage(tmp_path / "a", [row(1)])], [stage(tmp_path / "b", [row(2)])]
    publish(target, first, "monday")
    publish(target, second, "monday")
    Library(table).restore(1)
    assert publish(target, second, "monday")["changed"] is True
    assert rows_of(table) == [(2, "north")]


def test_a_restore_to_a_moment_of_which_nobody_knows_what_was_there_is_told(table: Path, tmp_path: Path) -> None:
    create(table)
    target, staged = target_of(table), [stage(tmp_path / "a", [row(1)])]
    publish(target, staged, "monday")
    Library(table).restore(0)

    def restored_to_a_moment(action: dict[str, Any]) -> None:
        if "commitInfo" in action:
            action["commitInfo"]["operationParameters"] = {"version": None, "timestamp": "2026-11-25 01:00:00"}

    edit_log(table, 2, restored_to_a_moment)
    with pytest.raises(
        TableError, match=r"was restored in version 2 to .*2026-11-25 01:00:00.*, and whether this run's"
    ):
        publish(target, staged, "monday")
    assert rows_of(table) == []


def test_overwriting_leaves_the_runs_rows_alone_and_names_whose_were_replaced(table: Path, tmp_path: Path) -> None:
    create(table, [row(0, "old")])
    publish(target_of(table), [stage(tmp_path / "a", [row(1)])], "monday")
    done = publish(target_of(table, "overwrite"), [stage(tmp_path / "b", [row(2)])], "tuesday")
    assert done["replaced"] == ("dag/monday/job/t",)
    assert rows_of(table) == [(2, "north")]
    assert rows_of(table, 1) == [(0, "old"), (1, "north")]


def test_overwriting_partitions_leaves_the_others_also_for_null_and_odd_texts(table: Path, tmp_path: Path) -> None:
    create(table, [row(1), row(3, None), row(4, "a/b%=c +ü")], partition_by=["region"])
    staged = [
        stage(tmp_path, [row(5, None)], NULL_FOLDER),
        stage(tmp_path, [row(6)], "__partition_0=va%2Fb%25%3Dc +ü"),
    ]
    publish(target_of(table, "overwrite_partitions"), staged, "monday")
    assert rows_of(table) == sorted([(1, "north"), (5, None), (6, "a/b%=c +ü")], key=str)
    library = Library(table)
    assert library.to_pyarrow_table(filters=[("region", "=", "a/b%=c +ü")])["id"].to_pylist() == [6]
    found = pa.table(library.scan(predicate="region IS NULL"))
    assert found["id"].to_pylist() == [5]


@pytest.mark.parametrize("text", ["1.0E-7", "0.00000010"])
def test_a_small_decimal_is_the_same_partition_with_and_without_ansi_mode(
    table: Path, tmp_path: Path, text: str
) -> None:
    small = [{"id": 1, "region": Decimal("0.00000010")}]
    schema = pa.schema([("id", pa.int64()), ("region", pa.decimal128(10, 8))])
    write_deltalake(table, pa.Table.from_pylist(small, schema=schema), partition_by=["region"])
    target = target_of(table, "overwrite_partitions")
    for number in (2, 3):
        publish(target, [stage(tmp_path, [row(number)], f"__partition_0={text}")], f"run-{number}")
    assert Library(table).to_pyarrow_table()["id"].to_pylist() == [3]
    (added,) = pa.table(Library(table).get_add_actions(flatten=True))["partition.region"].to_pylist()
    assert added == Decimal("0.00000010")
    log = (table / "_delta_log" / f"{2:020d}.json").read_text()
    assert '"region":"0.00000010"' in log


def test_an_empty_text_as_a_partition_is_refused_as_readers_take_it_for_null(table: Path, tmp_path: Path) -> None:
    create(table, partition_by=["region"])
    with pytest.raises(TableError, match="partition column 'region' is the empty string, which every reader of Delta"):
        publish(target_of(table), [stage(tmp_path, [row(1, "")], "__partition_0=v")], "monday")
    assert rows_of(table) == []


def test_an_append_that_would_be_overwritten_unseen_stops_the_run(table: Path, tmp_path: Path) -> None:
    create(table, [row(1, "old")])

    def append_once(step: str, left: list[str] = [""]) -> None:  # noqa: B006
        if step == "ready" and left:
            left.pop()
            write_deltalake(table, pa.Table.from_pylist([row(2, "new")], schema=SCHEMA), mode="append")

    staged = [stage(tmp_path, [row(3)])]
    with pytest.raises(CommitConflictError, match="was committed while this run was about to overwrite, with 1 file"):
        publish(target_of(table, "overwrite"), staged, "monday", on_step=append_once)
    assert rows_of(table) == [(1, "old"), (2, "new")]
    publish(target_of(table, "overwrite"), staged, "monday")
    assert rows_of(table) == [(3, "north")]


def test_an_append_that_is_overtaken_adds_its_rows_after_the_other(table: Path, tmp_path: Path) -> None:
    create(table)
    steps: list[str] = []

    def append_once(step: str) -> None:
        steps.append(step)
        if steps.count("ready") == 1 and step == "ready":
            write_deltalake(table, pa.Table.from_pylist([row(2, "new")], schema=SCHEMA), mode="append")

    publish(target_of(table), [stage(tmp_path, [row(3)])], "monday", on_step=append_once)
    assert rows_of(table) == [(2, "new"), (3, "north")]
    assert steps == ["files copied", "ready", "overtaken", "ready", "committed"]


def test_what_the_library_refuses_is_told_and_not_tried_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(table)

    def refuse(*arguments: object, **options: object) -> None:
        raise CommitFailedError("Unsupported table features required: [CoordinatedCommits]")

    monkeypatch.setattr(Library, "create_write_transaction", refuse)
    with pytest.raises(TableError, match="although no other commit came first: Unsupported table features required"):
        publish(target_of(table), [stage(tmp_path, [row(1)])], "monday")


def test_files_that_are_not_as_their_manifest_says_are_not_published(table: Path, tmp_path: Path) -> None:
    create(table)
    staged = stage(tmp_path, [row(1)])
    with pytest.raises(DamagedFileError, match=f"{staged.bytes} bytes, its manifest says {staged.bytes + 1}"):
        publish(target_of(table), [replace(staged, bytes=staged.bytes + 1)], "monday")
    Path(str(staged.source)).unlink()
    with pytest.raises(MissingFileError, match="its manifest lists it: clear the subtask that wrote it"):
        publish(target_of(table), [staged], "monday")
    assert rows_of(table) == []


def test_a_table_that_changed_or_was_made_anew_is_refused(table: Path, tmp_path: Path) -> None:
    create(table)
    target, staged = target_of(table), [stage(tmp_path, [row(1)])]
    rewritten = pa.table({"id": pa.array(["1"]), "region": pa.array(["x"])})
    write_deltalake(table, rewritten, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(TableError, match="has other columns since this run was planned"):
        publish(target, staged, "monday")
    create(table, mode="overwrite", schema_mode="overwrite", partition_by=["region"])
    with pytest.raises(TableError, match="is partitioned in another way since this run was planned"):
        publish(target, staged, "monday")
    with pytest.raises(TableError, match="was recreated since this run was planned"):
        publish(replace(target, uuid="another"), staged, "monday")


def test_a_column_that_was_added_since_the_plan_is_null_in_the_runs_rows(table: Path, tmp_path: Path) -> None:
    create(table)
    target = target_of(table)
    more = pa.table({"id": pa.array([1], pa.int64()), "region": ["old"], "more": [7]})
    write_deltalake(table, more, mode="append", schema_mode="merge")
    publish(target, [stage(tmp_path, [row(2)])], "monday")
    found = Library(table).to_pyarrow_table().sort_by("id").to_pylist()
    assert found == [{"id": 1, "region": "old", "more": 7}, {"id": 2, "region": "north", "more": None}]


def test_null_in_a_required_column_is_not_published(table: Path, tmp_path: Path) -> None:
    required = pa.schema([pa.field("id", pa.int64(), nullable=False), ("region", pa.string())])
    write_deltalake(table, pa.Table.from_pylist([], schema=required))
    with pytest.raises(TableError, match=r"column 'id' is required, and .* has rows in which it is NULL"):
        publish(target_of(table), [stage(tmp_path, [{"id": None, "region": "x"}])], "monday")


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), [1, None], "more.element"),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), [("a", None)], "more.value"),
    ],
)
def test_null_inside_of_a_column_that_requires_values_is_not_published(
    table: Path, tmp_path: Path, kind: pa.DataType, value: Any, path: str
) -> None:
    write_deltalake(table, pa.schema([("id", pa.int64()), ("more", kind)]).empty_table())
    loose = pa.list_(pa.int64()) if pa.types.is_list(kind) else pa.map_(pa.string(), pa.int64())
    schema = pa.schema([("id", pa.int64()), ("more", loose)])
    with pytest.raises(TableError, match=rf"column '{re.escape(path)}' is required, and .* has rows in which it is"):
        publish(target_of(table), [stage(tmp_path, [{"id": 1, "more": value}], schema=schema)], "monday")
    publish(target_of(table), [stage(tmp_path, [{"id": 1, "more": None}], schema=schema)], "monday")
    assert Library(table).to_pyarrow_table().to_pylist() == [{"id": 1, "more": None}]


def test_a_struct_whose_field_is_not_null_is_refused_in_plan(table: Path) -> None:
    strict = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    write_deltalake(table, pa.schema([("more", pa.list_(strict))]).empty_table())
    with pytest.raises(TableError, match="field 'x' of a struct is NOT NULL, and readers by pyarrow fail"):
        target_of(table)


@pytest.mark.parametrize("a", [pa.array([7, 8]), pa.array([{"b": 7}, {"b": 8}])])
def test_a_column_with_a_dot_in_its_name_has_its_own_bounds(table: Path, tmp_path: Path, a: pa.Array) -> None:
    rows = pa.table({"a": a, "a.b": pa.array([1, None])})
    write_deltalake(table, rows.slice(0, 0))
    publish(target_of(table), [stage(tmp_path, rows.to_pylist(), schema=rows.schema)], "monday")
    logged = (table / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    (add,) = [action["add"] for action in map(json.loads, logged) if "add" in action]
    statistics = json.loads(add["stats"])
    low = a[0].as_py()
    assert statistics["minValues"] == {"a": low, "a.b": 1}
    assert statistics["maxValues"] == {"a": a[1].as_py(), "a.b": 1}
    assert statistics["nullCount"] == {"a": {"b": 0} if isinstance(low, dict) else 0, "a.b": 1}
    assert Library(table).to_pyarrow_table() == rows


def test_nothing_of_a_table_that_only_takes_new_rows_is_replaced(table: Path, tmp_path: Path) -> None:
    create(table, configuration={"delta.appendOnly": "true"})
    with pytest.raises(TableError, match=re.escape("delta.appendOnly is true, and rows would have to be replaced")):
        target_of(table, "overwrite")
    publish(target_of(table), [stage(tmp_path / "a", [row(1)])], "monday")
    with pytest.raises(TableError, match=re.escape("delta.appendOnly is true, and rows would have to be replaced")):
        publish(target_of(table), [stage(tmp_path / "b", [row(2)])], "monday")
    assert rows_of(table) == [(1, "north")]


def test_eight_runs_that_publish_at_once_are_each_in_the_table_once(table: Path, tmp_path: Path) -> None:
    create(table)
    target, seen = target_of(table), []

    def run(number: int) -> None:
        staged = [stage(tmp_path / f"{number}-{each}", [row(number % 8)]) for each in range(3)]
        publish(target, staged, f"run-{number % 8}")  # every run is tried by two at once, too

    def look() -> None:
        while len(seen) < 50:
            seen.append(Counter(Library(table).to_pyarrow_table()["id"].to_pylist()))

    with ThreadPoolExecutor(17) as pool:
        looking = pool.submit(look)
        for done in [pool.submit(run, number) for number in range(16)]:
            done.result(timeout=300)
        looking.result(timeout=300)
    library = Library(table)
    assert Counter(library.to_pyarrow_table()["id"].to_pylist()) == dict.fromkeys(range(8), 3)
    runs = [entry[RUN_PROPERTY] for entry in library.history() if RUN_PROPERTY in entry]
    assert sorted(runs) == [f"dag/run-{number}/job/t" for number in range(8)]
    assert all(set(counts.values()) <= {3} for counts in seen)
    files = library.file_uris()
    assert duckdb.sql(f"SELECT count(*) FROM read_parquet({files})").fetchall() == [(24,)]
