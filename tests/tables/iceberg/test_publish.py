"""A run's rows are in the table once: repeated, cleared, overtaken, or eight at a time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, LongType, MapType, NestedField, StringType, StructType

from airflow_abs.exchange.errors import CommitConflictError, DamagedFileError, MissingFileError
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.run_publication import RUN_PROPERTY
from airflow_abs.testing.table_contract import stage_file
from tests.postgres_server import running_postgres
from tests.tables.iceberg.staging import SCHEMA, publish, row, rows_of, stage, target_of

BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
NULL_FOLDER = "__partition_0=__HIVE_DEFAULT_PARTITION__"


def test_a_run_is_one_snapshot_and_a_repetition_none(catalog: Any, properties: dict[str, str], tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [1], "region": ["old"]}))
    staged = [stage(tmp_path / "a", table, [row(2), row(3)]), stage(tmp_path / "a", table, [row(4)])]
    done = publish(properties, target_of(table), staged, "monday")
    table.refresh()
    assert done == {
        "target": "lake.db.t",
        "identity": "dag/monday/job/t",
        "files": 2,
        "rows": 3,
        "bytes": sum(file.bytes for file in staged),
        "changed": True,
        "replaced": (),
        "foreign_files": 0,
        "foreign_targets": 0,
        "snapshot": table.current_snapshot().snapshot_id,
    }
    again = publish(properties, target_of(table), staged, "monday")
    assert (again["changed"], again["snapshot"]) == (False, done["snapshot"])
    assert rows_of(table) == [(1, "old"), (2, "north"), (3, "north"), (4, "north")]
    assert len(table.snapshots()) == 2


def test_a_run_of_which_rows_were_compacted_is_not_replaced(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    staged = [stage(tmp_path / "a", table, [row(1)])]
    publish(properties, target_of(table), staged, "monday")
    table.refresh()
    table.overwrite(table.scan().to_arrow())  # as a compaction does: the same rows in a file of another name
    assert publish(properties, target_of(table), staged, "monday")["changed"] is False
    with pytest.raises(TableError, match="published 1 file that others have since rewritten or deleted"):
        publish(properties, target_of(table), [stage(tmp_path / "b", table, [row(2)])], "monday")
    assert rows_of(table) == [(1, "north")]


def test_a_run_whose_snapshot_has_expired_is_found_by_its_files(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    staged = [stage(tmp_path / "a", table, [row(1)])]
    first = publish(properties, target_of(table), staged, "monday")["snapshot"]
    table.refresh()
    table.append(pa.table({"id": [2], "region": ["old"]}))
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert publish(properties, target_of(table), staged, "monday")["changed"] is False
    publish(properties, target_of(table), [stage(tmp_path / "b", table, [row(3)])], "monday")
    assert rows_of(table) == [(2, "old"), (3, "north")]


@pytest.mark.parametrize("expired", ["monday", "plan", "all"])
def test_a_commit_that_is_repeated_after_snapshots_expired_overwrites_no_later_run(
    catalog: Any, properties: dict[str, str], tmp_path: Path, expired: str
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [0], "region": ["old"]}))
    target = target_of(table, "overwrite")
    planned = table.current_snapshot().snapshot_id
    staged = [stage(tmp_path / "a", table, [row(1)])]
    monday = publish(properties, target, staged, "monday")["snapshot"]
    publish(properties, target, [stage(tmp_path / "b", table, [row(2)])], "tuesday")
    table.refresh()
    for each in {"monday": [monday], "plan": [planned], "all": [monday, planned]}[expired]:
        table.maintenance.expire_snapshots().by_id(each).commit()
    if expired == "plan":
        assert publish(properties, target, staged, "monday")["changed"] is False
    else:
        with pytest.raises(TableError, match="snapshots have expired since this run was planned, so whether it has"):
            publish(properties, target, staged, "monday")
    assert rows_of(table) == [(2, "north")]
    table.refresh()
    publish(properties, target_of(table, "overwrite"), staged, "monday")  # planned anew
    assert rows_of(table) == [(1, "north")] if expired != "plan" else [(2, "north")]


def test_a_commit_that_is_repeated_after_its_rows_were_compacted_and_snapshots_expired_adds_none(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    target, staged = target_of(table), [stage(tmp_path / "a", table, [row(1)])]
    first = publish(properties, target, staged, "monday")["snapshot"]
    table.refresh()
    table.overwrite(table.scan().to_arrow())
    table.maintenance.expire_snapshots().by_id(first).commit()
    with pytest.raises(TableError, match="snapshots have expired since this run was planned"):
        publish(properties, target, staged, "monday")
    assert rows_of(table) == [(1, "north")]


def test_runs_are_published_whose_plan_is_younger_than_what_expired(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [0], "region": ["old"]}))
    first = table.current_snapshot().snapshot_id
    table.append(pa.table({"id": [1], "region": ["old"]}))
    table.maintenance.expire_snapshots().by_id(first).commit()
    target = target_of(table)
    kept = table.current_snapshot().snapshot_id
    for number, run in enumerate(("monday", "tuesday"), 2):
        publish(properties, target, [stage(tmp_path / run, table, [row(number)])], run)
    table.refresh()
    table.manage_snapshots().rollback_to_snapshot(kept).commit()
    publish(properties, target, [stage(tmp_path / "tuesday", table, [row(3)])], "tuesday")
    assert rows_of(table) == [(0, "old"), (1, "old"), (3, "north")]


def test_overwriting_partitions_leaves_the_others_also_for_null_and_empty_texts(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_REGION)
    table.append(pa.table({"id": [1, 2, 3, 4], "region": ["north", "", None, "a/b%=c"]}))
    staged = [
        stage(tmp_path, table, [row(5, None)], NULL_FOLDER),
        stage(tmp_path, table, [row(6, "a/b%=c")], "__partition_0=va%2Fb%25%3Dc"),
        stage(tmp_path, table, [row(7, "")], "__partition_0=v"),
    ]
    publish(properties, target_of(table, "overwrite_partitions"), staged, "monday")
    assert rows_of(table) == sorted([(1, "north"), (7, ""), (5, None), (6, "a/b%=c")], key=str)
    assert [each["id"] for each in table.scan(row_filter="region = 'a/b%=c'").to_arrow().to_pylist()] == [6]
    assert table.scan(row_filter="region IS NULL").to_arrow()["id"].to_pylist() == [5]


def test_an_append_that_would_be_overwritten_unseen_stops_the_run(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(pa.table({"id": [1], "region": ["old"]}))

    def append_once(step: str, left: list[str] = [""]) -> None:  # noqa: B006
        if step == "ready" and left:
            left.pop()
            catalog.load_table("db.t").append(pa.table({"id": [2], "region": ["new"]}))

    staged = [stage(tmp_path, table, [row(3)])]
    with pytest.raises(CommitConflictError, match="was committed while this run was about to overwrite, with 1 file"):
        publish(properties, target_of(table, "overwrite"), staged, "monday", on_step=append_once)
    assert rows_of(table) == [(1, "old"), (2, "new")]
    publish(properties, target_of(table, "overwrite"), staged, "monday")
    assert rows_of(table) == [(3, "north")]


def test_files_that_are_not_as_their_manifest_says_are_not_published(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    staged = stage(tmp_path, table, [row(1)])
    with pytest.raises(DamagedFileError, match=f"{staged.bytes} bytes, its manifest says {staged.bytes + 1}"):
        publish(properties, target_of(table), [replace(staged, bytes=staged.bytes + 1)], "monday")
    Path(str(staged.source)).unlink()
    with pytest.raises(MissingFileError, match="its manifest lists it: clear the subtask that wrote it"):
        publish(properties, target_of(table), [staged], "monday")
    assert rows_of(table) == []


def test_a_table_that_changed_its_partitions_or_was_made_anew_is_refused(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    target, staged = target_of(table), [stage(tmp_path, table, [row(1)])]
    with table.update_spec() as update:
        update.add_identity("region")
    with pytest.raises(TableError, match="is partitioned in another way since this run was planned"):
        publish(properties, target, staged, "monday")
    catalog.drop_table("db.t")
    catalog.create_table("db.t", SCHEMA)
    with pytest.raises(TableError, match="was recreated since this run was planned"):
        publish(properties, target, staged, "monday")


def test_null_in_a_required_column_is_not_published(catalog: Any, properties: dict[str, str], tmp_path: Path) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "id", LongType(), required=True)))
    loose = catalog.create_table("db.loose", Schema(NestedField(1, "id", LongType())))
    staged = stage(tmp_path, loose, [{"id": None}])
    with pytest.raises(TableError, match=r"column 'id' is required, and .* has rows in which it is NULL"):
        publish(properties, target_of(table), [staged], "monday")


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (ListType(3, LongType(), element_required=True), [1, None], "more.element"),
        (MapType(3, StringType(), 4, LongType(), value_required=True), {"a": None}, "more.value"),
        (StructType(NestedField(3, "x", LongType(), required=True)), {"x": None}, "more.x"),
    ],
)
def test_null_inside_of_a_column_that_requires_values_is_not_published(
    catalog: Any, properties: dict[str, str], tmp_path: Path, kind: Any, value: Any, path: str
) -> None:
    ids = NestedField(1, "id", LongType())
    table = catalog.create_table("db.t", Schema(ids, NestedField(2, "more", kind)))
    optional = {
        "more.element": ListType(3, LongType(), element_required=False),
        "more.value": MapType(3, StringType(), 4, LongType(), value_required=False),
        "more.x": StructType(NestedField(3, "x", LongType())),
    }
    loose = catalog.create_table("db.loose", Schema(ids, NestedField(2, "more", optional[path])))
    with pytest.raises(TableError, match=rf"column '{re.escape(path)}' is required, and .* has rows in which it is"):
        publish(properties, target_of(table), [stage(tmp_path, loose, [{"id": 1, "more": value}])], "monday")
    publish(properties, target_of(table), [stage(tmp_path, loose, [{"id": 1, "more": None}])], "monday")
    assert catalog.load_table("db.t").scan().to_arrow().to_pylist() == [{"id": 1, "more": None}]


def test_sizes_are_those_of_the_files_that_were_given_ids(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    tags = NestedField(2, "tags", ListType(3, StringType(), element_required=False))
    table = catalog.create_table("db.t", Schema(NestedField(1, "id", LongType()), tags))
    staged = stage_file(tmp_path, pa.table({"id": [1], "tags": [["a"]]}))
    publish(properties, target_of(table), [staged], "monday")
    table.refresh()
    (task,) = table.scan().plan_files()
    path = Path(task.file.file_path.removeprefix("file://"))
    assert staged.bytes < task.file.file_size_in_bytes == path.stat().st_size
    assert table.scan().to_arrow().to_pylist() == [{"id": 1, "tags": ["a"]}]
    assert table.properties == {}


def test_a_file_with_other_columns_than_planned_is_not_published(
    catalog: Any, properties: dict[str, str], tmp_path: Path
) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "tags", ListType(2, StringType()))))
    staged = stage_file(tmp_path, pa.table({"other": [["a"]]}))
    with pytest.raises(DamagedFileError, match=r"cannot be given the field ids of table .*: it has 'other', and the"):
        publish(properties, target_of(table), [staged], "monday")


@pytest.fixture(scope="module")
def postgres() -> Iterator[int]:
    with running_postgres() as port:
        yield port


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.cluster)])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """A catalog that several publish to at once."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    if request.param == "postgresql":
        uri = f"postgresql+psycopg2://airflow@127.0.0.1:{request.getfixturevalue('postgres')}/postgres"
    return {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/warehouse"}


def test_eight_runs_that_publish_at_once_are_each_in_the_table_once(shared: dict[str, str], tmp_path: Path) -> None:
    catalog = load_catalog("lake", **shared)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", SCHEMA)
    target, seen = target_of(table), []

    def run(number: int) -> None:
        rows = [row(number % 8)]  # every run is tried by two at once, too
        staged = [stage(tmp_path / f"{number}-{each}", table, rows) for each in range(3)]
        publish(shared, target, staged, f"run-{number % 8}")

    def look() -> None:
        reader = load_catalog("lake", **shared)
        while len(seen) < 50:
            found = reader.load_table("db.t").scan().to_arrow()["id"].to_pylist()
            seen.append(Counter(found))
        reader.close()

    with ThreadPoolExecutor(17) as pool:
        looking = pool.submit(look)
        for done in [pool.submit(run, number) for number in range(16)]:
            done.result(timeout=300)
        looking.result(timeout=300)
    table.refresh()
    assert Counter(table.scan().to_arrow()["id"].to_pylist()) == dict.fromkeys(range(8), 3)
    runs = [snapshot.summary[RUN_PROPERTY] for snapshot in table.snapshots()]
    assert sorted(runs) == [f"dag/run-{number}/job/t" for number in range(8)]
    for snapshot in table.snapshots():
        whole = Counter(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["id"].to_pylist())
        assert set(whole.values()) == {3}
    assert all(set(counts.values()) <= {3} for counts in seen)
    catalog.destroy_tables()
    catalog.close()
