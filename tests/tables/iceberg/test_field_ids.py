"""Every column of a file has its field id in the footer, however deep in lists, maps and structs it is."""

from __future__ import annotations

import io
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)

from airflow_abs.exchange.results.thrift_compact import ThriftError
from airflow_abs.tables.iceberg.field_ids import ColumnsDifferError, footer_with_ids, lacks_ids

NAMES = st.sampled_from(["a", "b", "list", "element", "key_value", "key", "ü", "a-b", "x y"])


def struct_of(inner: st.SearchStrategy[IcebergType]) -> st.SearchStrategy[StructType]:
    fields = st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda field: field[0])
    return fields.map(lambda found: StructType(*(NestedField(0, name, kind) for name, kind in found)))


TYPES: st.SearchStrategy[IcebergType] = st.recursive(
    st.sampled_from([LongType(), StringType()]),
    lambda inner: st.one_of(
        struct_of(inner),
        inner.map(lambda kind: ListType(0, kind, element_required=False)),
        inner.map(lambda kind: MapType(0, StringType(), 0, kind, value_required=False)),
    ),
    max_leaves=6,
)
SCHEMAS = struct_of(TYPES).map(lambda struct: assign_fresh_schema_ids(Schema(*struct.fields)))


def written(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue()


def with_ids(file: bytes, schema: Schema) -> bytes:
    start, end = footer_with_ids(io.BytesIO(file), len(file), schema)
    return file[:start] + end


@settings(max_examples=60, deadline=None)
@given(schema=SCHEMAS)
def test_a_file_without_ids_gets_those_of_the_table_and_stays_as_it_is(schema: Schema) -> None:
    plain = schema_to_pyarrow(schema, include_field_ids=False)
    file = written(plain.empty_table())
    changed = with_ids(file, schema)
    assert pyarrow_to_schema(pq.read_schema(io.BytesIO(changed))).as_struct() == schema.as_struct()
    assert pq.read_table(io.BytesIO(changed)).schema.remove_metadata().equals(plain.remove_metadata())
    assert with_ids(changed, schema) == changed


def test_what_other_programs_read_is_what_was_written(tmp_path: Any) -> None:
    inside = StructType(NestedField(7, "key", StringType()))
    lists = MapType(5, StringType(), 6, ListType(8, LongType(), element_required=False), value_required=False)
    schema = Schema(
        NestedField(1, "id", LongType()),
        NestedField(2, "tags", ListType(4, inside, element_required=False)),
        NestedField(3, "more", lists),
    )
    rows = pa.Table.from_pylist(
        [{"id": n, "tags": [{"key": f"k{n}"}, None], "more": [(f"m{n}", [n, None])]} for n in range(10_000)],
        schema=schema_to_pyarrow(schema, include_field_ids=False),
    )
    path = tmp_path / "rows.parquet"
    path.write_bytes(with_ids(written(rows), schema))
    assert pq.read_table(path).equals(rows)
    assert duckdb.sql(f"FROM '{path}'").to_arrow_table().to_pylist() == rows.to_pylist()
    found = duckdb.sql(f"SELECT name, field_id FROM parquet_schema('{path}') WHERE field_id IS NOT NULL").fetchall()
    assert found == [
        ("id", 1),
        ("tags", 2),
        ("element", 4),
        ("key", 7),
        ("more", 3),
        ("key", 5),
        ("value", 6),
        ("element", 8),
    ]


LONGS = Schema(NestedField(1, "tags", ListType(2, LongType(), element_required=False)))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (pa.schema([("other", pa.list_(pa.int64()))]), "it has 'other', and the table 'tags'"),
        (pa.schema([("tags", pa.int64())]), "its schema ends before its last column"),
        (pa.schema([("tags", pa.map_(pa.string(), pa.int64()))]), "'key_value' has 2 parts, expected 1"),
        (pa.schema([("tags", pa.list_(pa.list_(pa.int64())))]), "a column of type long has 1 parts"),
        (
            pa.schema([pa.field("tags", pa.list_(pa.int64()), metadata={"PARQUET:field_id": "7"})]),
            "'tags' has field id 7, and 1 in the table",
        ),
    ],
)
def test_a_file_with_other_columns_or_ids_is_refused(columns: pa.Schema, message: str) -> None:
    with pytest.raises(ColumnsDifferError, match=message):
        with_ids(written(columns.empty_table()), LONGS)


def test_what_is_no_parquet_is_refused() -> None:
    with pytest.raises(ThriftError, match="11 bytes that do not end as Parquet does"):
        with_ids(b"PAR1 rubbish"[:11], LONGS)
    with pytest.raises(ThriftError):
        with_ids(b"PAR1" + b"\xff" * 20 + (20).to_bytes(4, "little") + b"PAR1", LONGS)


def test_only_lists_and_maps_lack_ids_where_they_may_be() -> None:
    inside = StructType(NestedField(2, "tags", ListType(3, LongType())))
    assert not lacks_ids(Schema(NestedField(1, "s", StructType(NestedField(2, "x", LongType())))))
    assert lacks_ids(Schema(NestedField(1, "s", inside)))
    assert lacks_ids(LONGS)
