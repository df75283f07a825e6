"""What is read of a snapshot, and what is refused because Spark would read it wrong."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, LongType, NestedField, StringType, TimeType

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.iceberg.catalog import load_table
from airflow_abs.tables.iceberg.snapshot import NAME_MAPPING, read_snapshot

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
)
BY_REGION = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))


def rows(table: Any, *values: tuple[int | None, str | None, date | None]) -> pa.Table:
    ids, regions, days = zip(*values, strict=True)
    return pa.table({"id": ids, "region": regions, "day": days}, schema=table.schema().as_arrow())


def test_a_table_that_nobody_wrote_to_has_columns_and_no_files(catalog: Any) -> None:
    found = read_snapshot("lake.db.t", catalog.create_table("db.t", SCHEMA))
    assert (found.snapshot_id, found.files, found.all_files, found.all_bytes) == (None, (), 0, 0)
    assert [field["name"] for field in json.loads(found.columns.schema)["fields"]] == ["id", "region", "day"]


def test_files_are_looked_up_under_names_made_of_their_ids(catalog: Any) -> None:
    fields = json.loads(read_snapshot("lake.db.t", catalog.create_table("db.t", SCHEMA)).columns.file_schema)["fields"]
    assert fields[1] == {
        "name": "__field_2",
        "type": "string",
        "nullable": True,
        "metadata": {"parquet.field.id": 2},
    }


def test_the_current_snapshot_is_read_with_sizes(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(table, (1, "north", date(2026, 1, 1))))
    table.append(rows(table, (2, "south", None), (3, None, None)))
    found = read_snapshot("lake.db.t", table)
    assert found.snapshot_id == table.current_snapshot().snapshot_id
    assert sorted(file.rows for file in found.files) == [1, 2]
    assert all(Path(file.path.removeprefix("file://")).stat().st_size == file.bytes for file in found.files)
    assert (found.all_files, found.all_bytes) == (2, sum(file.bytes for file in found.files))


def test_an_earlier_snapshot_is_read_with_its_own_columns(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(table, (1, "north", None)))
    first = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.rename_column("region", "area").delete_column("day")
    table.append(pa.table({"id": [2], "area": ["south"]}, schema=table.schema().as_arrow()))
    found = read_snapshot("lake.db.t", table, snapshot_id=first)
    assert [field["name"] for field in json.loads(found.columns.schema)["fields"]] == ["id", "region", "day"]
    assert [file.rows for file in found.files] == [1]


def test_an_unknown_snapshot_is_refused_by_the_ones_there_are(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(table, (1, "north", None)))
    with pytest.raises(
        TableError, match=f"has no snapshot 17; its last ones are {table.current_snapshot().snapshot_id}"
    ):
        read_snapshot("lake.db.t", table, snapshot_id=17)


def test_files_outside_of_a_condition_are_left_out(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_REGION)
    table.append(rows(table, (1, "north", None), (2, "south", None), (3, None, None)))
    found = read_snapshot("lake.db.t", table, where="region = 'south'")
    assert ([file.rows for file in found.files], found.all_files) == ([1], 3)
    assert len(read_snapshot("lake.db.t", table, where="region IS NULL").files) == 1


def test_a_condition_that_cannot_choose_files_is_refused(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(table, (1, "north", None)))
    with pytest.raises(TableError, match="where='amount > 3' cannot be used to choose files"):
        read_snapshot("lake.db.t", table, where="amount > 3")
    with pytest.raises(TableError, match="expected comparisons of columns with literals"):
        read_snapshot("lake.db.t", table, where="id + 1 = 2")


def test_a_condition_on_an_earlier_snapshot_means_its_own_columns(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA)
    table.append(rows(table, (1, "north", None)))
    first = table.current_snapshot().snapshot_id
    with table.update_schema() as update:
        update.rename_column("region", "area")
    with table.update_schema() as update:
        update.add_column("region", LongType())
    found = read_snapshot("lake.db.t", table, snapshot_id=first, where="region = 'north'")
    assert (found.condition, [file.rows for file in found.files]) == ("(`region` = 'north')", [1])
    assert read_snapshot("lake.db.t", table, snapshot_id=first, where="region = 'south'").files == ()


def test_a_type_that_spark_cannot_read_is_refused(catalog: Any) -> None:
    table = catalog.create_table("db.t", Schema(NestedField(1, "at", TimeType(), required=False)))
    with pytest.raises(TableError, match="column 'at' is of type time, which Spark's Parquet reader cannot give"):
        read_snapshot("lake.db.t", table)


def adopt(table: Any, path: Path, counted: set[int]) -> None:
    """Add a file as engines do that take over a folder, with counts of the values of these columns."""
    counts = dict.fromkeys(counted, 1)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record("north"),
        record_count=1,
        file_size_in_bytes=1000,
        value_counts=counts,
    )
    file.spec_id = table.spec().spec_id
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
        snapshot.append_data_file(file)


def test_a_file_without_its_partition_column_is_refused(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_REGION)
    lacking = rows(table, (1, "north", None)).drop_columns(["region"])
    pq.write_table(lacking, tmp_path / "lacking.parquet")
    adopt(table, tmp_path / "lacking.parquet", {1, 3})
    with pytest.raises(TableError, match="does not hold its partition column region by field id"):
        read_snapshot("lake.db.t", table)


def test_a_file_that_was_adopted_by_the_names_of_its_columns_is_refused(catalog: Any, tmp_path: Path) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_REGION)
    pq.write_table(pa.table({"id": [1], "region": ["north"], "day": [None]}), tmp_path / "named.parquet")
    with table.transaction() as transaction:
        transaction.set_properties({NAME_MAPPING: table.schema().name_mapping.model_dump_json()})
    adopt(table, tmp_path / "named.parquet", {1, 2, 3})
    with pytest.raises(TableError, match="does not hold its partition column region by field id"):
        read_snapshot("lake.db.t", table)


def test_no_file_is_opened_of_which_the_metadata_say_that_it_holds_its_partition_column(catalog: Any) -> None:
    table = catalog.create_table("db.t", SCHEMA, partition_spec=BY_REGION)
    adopt(table, Path("/no/such/file.parquet"), {1, 2, 3})
    assert [file.path for file in read_snapshot("lake.db.t", table).files] == ["file:///no/such/file.parquet"]


def test_a_table_that_is_not_there_is_named_with_its_connection(catalog: Any, properties: dict[str, str]) -> None:
    with pytest.raises(TableError, match=r"table lake\.db\.nothing: the catalog does not hold it.*connection 'lake'"):
        load_table("db.nothing", "lake", properties)


def test_a_catalog_that_cannot_be_read_is_named_with_its_connection() -> None:
    with pytest.raises(TableError, match=r"table lake\.db\.t: the catalog cannot be read: .*check the connection"):
        load_table("db.t", "lake", {"type": "sql", "uri": "sqlite:////no/such/folder/catalog.db"})
