"""What a version of a Delta table holds, fixed; or why Spark could not read it rightly."""

from __future__ import annotations

import base64
import json
import re
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs import DeltaTable
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.delta.features import check_writable
from airflow_abs.tables.errors import TableError
from tests.tables.delta.staging import SCHEMA, append_log, create, edit_log, row

FEATURES = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": []}}
Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"


def vector(*deleted: int) -> dict[str, Any]:
    """An inline deletion vector: one roaring bitmap with an even number of rows, as the protocol serialises it."""
    head = struct.pack("<IQIIIHHI", 1681511377, 1, 0, 12346, 1, 0, len(deleted) - 1, 16)
    data = head + struct.pack(f"<{len(deleted)}H", *deleted)
    text = base64.b85encode(data).decode().translate(str.maketrans(B85, Z85))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(deleted)}


def pin(table: Path, **arguments: Any) -> Any:
    return DeltaTable(str(table), **arguments).pin(TableAccess(lambda conn_id: {}, Path))


def refused(table: Path, message: str, **arguments: Any) -> None:
    with pytest.raises(TableError, match=re.escape(message)):
        pin(table, **arguments)


def test_the_newest_version_is_fixed_unless_another_one_is_named(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1)])
    write_deltalake(tmp_path / "t", pa.Table.from_pylist([row(2)], schema=SCHEMA), mode="append")
    newest, first = pin(tmp_path / "t"), pin(tmp_path / "t", version="0")
    assert (newest.pinned.label, newest.pinned.files) == (f"{tmp_path}/t at version 1", 2)
    assert (first.pinned.label, first.pinned.files) == (f"{tmp_path}/t at version 0", 1)
    assert {file.path for file in first.files} < {file.path for file in newest.files}
    refused(tmp_path / "t", f"table {tmp_path}/t: has no version 7; the newest one is 1", version=7)
    refused(tmp_path / "t", "version is 'yesterday'; expected the number of a version", version="yesterday")


def test_what_is_no_table_is_told_from_what_cannot_be_read(tmp_path: Path) -> None:
    refused(tmp_path / "t", "there is no Delta table")
    refused(tmp_path / "100%", "its path holds a % or a backslash, which deltalake takes for an escape")
    create(tmp_path / "t", [row(1)])
    (tmp_path / "t" / "_delta_log" / f"{0:020d}.json").write_text("{")
    refused(tmp_path / "t", "its log cannot be read")


def test_a_version_whose_log_was_cleaned_up_is_refused(tmp_path: Path) -> None:
    for number in range(3):
        write_deltalake(tmp_path / "t", pa.Table.from_pylist([row(number)], schema=SCHEMA), mode="append")
    Library(tmp_path / "t").create_checkpoint()
    for number in (0, 1):
        (tmp_path / "t" / "_delta_log" / f"{number:020d}.json").unlink()
    refused(tmp_path / "t", "version 1 is no longer in its log", version=1)
    assert pin(tmp_path / "t", version=2).pinned.files == 3


def test_files_that_were_vacuumed_are_named_before_anything_is_read(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1)])
    create(tmp_path / "t", [row(2)], mode="overwrite")
    Library(tmp_path / "t").vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    refused(tmp_path / "t", "1 of 1 files of version 0 are gone (such as part-", version=0)
    assert pin(tmp_path / "t").pinned.files == 1


def test_partition_values_are_taken_from_the_log(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1), row(2, None), row(3, ""), row(4, "a/b%=c")], partition_by=["region"])
    found = pin(tmp_path / "t")
    assert sorted((file.constants for file in found.files), key=str) == [("a/b%=c",), ("north",), (None,), (None,)]
    assert [constant.name for constant in found.pinned.constants] == ["region"]
    assert [field["name"] for field in json.loads(found.pinned.file_schema)["fields"]] == ["id"]


def test_a_condition_leaves_out_files_by_partitions_and_statistics(tmp_path: Path) -> None:
    for number in range(4):
        rows = [row(number * 10 + each, ["north", "south"][number % 2]) for each in range(10)]
        create(tmp_path / "t", rows, mode="append", partition_by=["region"])
    assert pin(tmp_path / "t", where="region = 'north'").pinned.files == 2
    assert pin(tmp_path / "t", where="region <> 'north' AND id < 20").pinned.files == 1
    found = pin(tmp_path / "t", where="id IN (3, 33)").pinned
    assert (found.files, found.all_files, found.condition is not None) == (2, 4, True)
    refused(tmp_path / "t", "where='amount > 1' cannot be used to choose files", where="amount > 1")


def test_rows_that_were_deleted_by_vectors_are_refused(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(number) for number in range(40)], configuration={"delta.enableDeletionVectors": "true"})
    assert pin(tmp_path / "t").pinned.files == 1

    def delete(action: dict[str, Any]) -> None:
        if "add" in action:
            action["add"]["deletionVector"] = vector(3, 4, 7, 11, 18, 29)

    edit_log(tmp_path / "t", 0, delete)
    assert pa.table(Library(tmp_path / "t").scan()).num_rows == 34
    refused(tmp_path / "t", "version 0 deletes rows of 1 file by deletion vectors")
    with pytest.raises(TableError, match="has files with deletion vectors, which deltalake cannot replace"):
        check_writable("t", Library(tmp_path / "t"), "overwrite")


def protocol(**features: list[str]) -> dict[str, Any]:
    return {"protocol": FEATURES["protocol"] | features}


def test_what_a_reader_must_know_and_does_not_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1)])
    append_log(tmp_path / "t", protocol(readerFeatures=["typeWidening"], writerFeatures=["typeWidening"]))

    def widen(action: dict[str, Any]) -> None:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            change = [{"fromType": "integer", "toType": "long"}]
            schema["fields"][0]["metadata"]["delta.typeChanges"] = change
            action["metaData"]["schemaString"] = json.dumps(schema)

    edit_log(tmp_path / "t", 0, widen)
    refused(tmp_path / "t", "the type of column 'id' was widened")


def test_what_a_writer_would_owe_the_table_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "mapped", [row(1)], configuration={"delta.columnMapping.mode": "name"})
    create(tmp_path / "checked", [row(1)]).alter.add_constraint({"positive": "id > 0"})
    with pytest.raises(TableError, match=re.escape("maps its columns (delta.columnMapping.mode is 'name')")):
        DeltaTable(str(tmp_path / "mapped")).target(TableAccess(lambda conn_id: {}, Path))
    with pytest.raises(
        TableError, match=re.escape("has the constraint 'positive' (id > 0), which this package does not check")
    ):
        DeltaTable(str(tmp_path / "checked")).target(TableAccess(lambda conn_id: {}, Path))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("delta.generationExpression", "1", "column 'id' is generated from others"),
        ("delta.identity.start", 1, "column 'id' is an identity column"),
        ("delta.invariants", '{"expression": {"expression": "id > 0"}}', "column 'id' has an invariant"),
    ],
)
def test_columns_that_engines_compute_or_check_are_refused(tmp_path: Path, key: str, value: Any, message: str) -> None:
    create(tmp_path / "t", [row(1)])

    def note(action: dict[str, Any]) -> None:
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            schema["fields"][0]["metadata"][key] = value
            action["metaData"]["schemaString"] = json.dumps(schema)

    edit_log(tmp_path / "t", 0, note)
    with pytest.raises(TableError, match=re.escape(message)):
        DeltaTable(str(tmp_path / "t")).target(TableAccess(lambda conn_id: {}, Path))
    assert pin(tmp_path / "t").pinned.files == 1


def test_features_that_nobody_here_knows_are_refused_for_writers(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1)])
    append_log(tmp_path / "t", protocol(writerFeatures=["rowTracking", "domainMetadata"]))
    with pytest.raises(TableError, match="it requires the writer features rowTracking, which airflow_abs does not"):
        DeltaTable(str(tmp_path / "t")).target(TableAccess(lambda conn_id: {}, Path))
    assert pin(tmp_path / "t").pinned.files == 1


def test_a_table_of_ten_thousand_files_is_listed_and_pruned(tmp_path: Path) -> None:
    create(tmp_path / "t", [row(1)])

    def added(number: int) -> dict[str, Any]:
        stats = {"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number}, "nullCount": {"id": 0}}
        return {
            "add": {
                "path": f"part-{number}.parquet",
                "partitionValues": {},
                "size": 10,
                "modificationTime": 1,
                "dataChange": True,
                "stats": json.dumps(stats),
            }
        }

    append_log(tmp_path / "t", *map(added, range(10_000)))
    found = pin(tmp_path / "t", where="id >= 9990")
    assert (found.pinned.files, found.pinned.all_files) == (10, 10_001)
