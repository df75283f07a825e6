"""Which tables of a catalog can be read by their files: what was recorded of a real metastore, and what differs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_abs.tables.catalog.description import check_readable, describe, shown_columns
from airflow_abs.tables.catalog.statements import StatementError
from airflow_abs.tables.errors import TableError
from tests.tables.catalog.recorded import RecordedCatalog


def described(**changes: Any) -> None:
    check_readable("d.h", describe("d.h", RecordedCatalog(changes), "`d`.`h`"))


def test_a_hive_table_of_parquet_files_can_be_read() -> None:
    found = describe("d.h", RecordedCatalog(), "`d`.`h`")
    check_readable("d.h", found)
    assert (found.name, found.location) == ("spark_catalog.d.h", "file:/lake/d.db/h")


def test_a_table_of_sparks_own_can_be_read_bucketed_or_not() -> None:
    described(provider="parquet", num_buckets=4, type="EXTERNAL", storage_properties={"path": "file:/lake"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type": "VIEW"}, "is of the type VIEW, which has no files of its own; read the tables that it is made of"),
        ({"type": "STREAMING_TABLE"}, "is of the type STREAMING_TABLE"),
        ({"provider": "delta"}, r"its files are delta's; write DeltaTable\(\.\.\.\) instead of Table"),
        ({"provider": "Iceberg"}, r"its files are Iceberg's; write IcebergTable\(\.\.\.\) instead of Table"),
        ({"table_properties": {"transactional": "true"}}, r"is transactional \(Hive's ACID\)"),
        (
            {"provider": "orc"},
            r"are orc, and Table\(...\) reads and writes Parquet; read Files\('file:/lake/d.db/h', form",
        ),
        ({"input_format": "org.apache.hadoop.mapred.TextInputFormat"}, r"its files are TextInputFormat, .* a copy of"),
        (
            {"storage_properties": {"pathGlobFilter": "*.p"}},
            "has the option 'pathGlobFilter', which says how its files",
        ),
        (
            {"partition_columns": ["day"], "partition_provider": "Filesystem"},
            r"its partitions are not in the catalog, but found in its folder; enter them there \(MSCK REPAIR TABLE\)",
        ),
    ],
)
def test_what_cannot_be_read_by_its_files_is_refused_with_what_to_write(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(TableError, match=f"table d.h: .*{words}"):
        described(**changes)


def test_a_table_that_is_not_there_is_told_as_such() -> None:
    catalog = RecordedCatalog(refusals={"DESCRIBE": StatementError("not found", "TABLE_OR_VIEW_NOT_FOUND")})
    with pytest.raises(TableError, match=r"table d\.h: there is no such table in the catalog of the job's Spark"):
        describe("d.h", catalog, "`d`.`h`")


def test_another_refusal_of_spark_is_told_in_its_words() -> None:
    catalog = RecordedCatalog(refusals={"DESCRIBE": StatementError("denied", "INSUFFICIENT_PERMISSIONS")})
    with pytest.raises(TableError, match=r"Spark refuses 'DESCRIBE TABLE EXTENDED `d`\.`h`  AS JSON': denied"):
        describe("d.h", catalog, "`d`.`h`")


def test_a_description_that_is_not_understood_is_refused() -> None:
    with pytest.raises(TableError, match=r"the catalog's description of it cannot be read: .*; the server's Spark"):
        described(location=["not", "a", "text"])


def test_columns_may_be_null_and_keep_only_what_says_how_they_are_read() -> None:
    catalog = RecordedCatalog(
        columns=[("id", "long"), ("s", {"type": "array", "elementType": "string", "containsNull": False})],
        metadata={"id": {"comment": "key", "EXISTS_DEFAULT": "5", "parquet.field.id": 1}, "s": {}},
    )
    assert shown_columns("d.h", catalog.schema("`d`.`h`")) == [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"EXISTS_DEFAULT": "5"}},
        {
            "name": "s",
            "type": {"type": "array", "elementType": "string", "containsNull": True},
            "nullable": True,
            "metadata": {},
        },
    ]


def test_a_char_column_is_refused_and_a_varchar_is_not() -> None:
    def schema(kind: str) -> str:
        return RecordedCatalog(metadata={"Name": {"__CHAR_VARCHAR_TYPE_STRING": kind}}).schema("`d`.`h`")

    assert shown_columns("d.h", schema("struct<a:varchar(5)>"))[1]["metadata"] == {}
    for kind in ("char(5)", "array<char(5)>"):
        with pytest.raises(
            TableError, match=rf"column 'Name' is {kind.replace('(', '.').replace(')', '.')}, whose val"
        ):
            shown_columns("d.h", schema(kind))


def test_a_type_that_files_do_not_hold_as_shown_is_refused() -> None:
    schema = json.dumps({"fields": [{"name": "p", "type": {"type": "udt"}, "metadata": {}}]})
    with pytest.raises(TableError, match="has a column of the type 'udt', which is not in files as it is shown"):
        shown_columns("d.h", schema)
