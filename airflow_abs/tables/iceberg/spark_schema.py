"""An Iceberg schema as Spark's reader takes it: JSON, with the id of every field that Parquet files are matched by.

Names of columns in files are those of the day on which they were written; ids stay. Spark (4.2) reads by id, but looks
at names here and there all the same: a filter is pushed down by name, a struct that was renamed loses its id when its
fields are pruned, and of two columns that are read together one may be taken for the other that had its name before.
So files are read under names that none of them can hold, made of the ids, and rows get the table's names afterwards.
What it costs: Spark skips no row groups by filters; the snapshot's own pruning by bounds of whole files stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.spark_settings import FIELD_ID

Naming = Callable[[NestedField], str]

_PRIMITIVES: dict[type[IcebergType], str] = {
    BooleanType: "boolean",
    IntegerType: "integer",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    DateType: "date",
    TimestampType: "timestamp_ntz",
    TimestamptzType: "timestamp",
    StringType: "string",
    BinaryType: "binary",
    FixedType: "binary",
}


@dataclass(frozen=True, slots=True)
class SparkSchema:
    """A table's columns: `schema` as its readers see them, `file_schema` as Spark looks them up in files; both are
    Spark's JSON, with the same fields in the same order."""

    schema: str
    file_schema: str


def spark_schema(table: str, schema: Schema) -> SparkSchema:
    """How to read files with this schema; every column may be NULL, as in whatever Spark reads from files.

    Raises:
        TableError: a type that Spark's Parquet reader cannot give (time, uuid, nanoseconds, variant, ...), or a default
            for rows that were written before the column was; names `table`.
    """
    return SparkSchema(
        json.dumps(_struct(table, schema.fields, _own_name)), json.dumps(_struct(table, schema.fields, _name_by_id))
    )


def _own_name(field: NestedField) -> str:
    return field.name


def _name_by_id(field: NestedField) -> str:
    """No file of a sane writer holds it."""
    return f"__field_{field.field_id}"


def _struct(table: str, fields: Iterable[NestedField], name: Naming) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field(table, field, name) for field in fields]}


def _field(table: str, field: NestedField, name: Naming) -> dict[str, Any]:
    if field.initial_default is not None:
        raise TableError(
            f"table {table}: column {field.name!r} has the default {field.initial_default!r} for rows that were "
            "written before it, which Spark's Parquet reader does not fill in; rewrite the table's files (for example "
            "with rewrite_data_files of an engine that knows defaults)"
        )
    return {
        "name": name(field),
        "type": _type(table, field.name, field.field_type, name),
        "nullable": True,
        "metadata": {FIELD_ID: field.field_id},
    }


def _type(table: str, column: str, kind: IcebergType, name: Naming) -> Any:
    match kind:
        case StructType():
            return _struct(table, kind.fields, name)
        case ListType():
            element = _type(table, column, kind.element_type, name)
            return {"type": "array", "elementType": element, "containsNull": True}
        case MapType():
            return {
                "type": "map",
                "keyType": _type(table, column, kind.key_type, name),
                "valueType": _type(table, column, kind.value_type, name),
                "valueContainsNull": True,
            }
        case DecimalType():
            return f"decimal({kind.precision},{kind.scale})"
        case _ if type(kind) in _PRIMITIVES:
            return _PRIMITIVES[type(kind)]
    raise TableError(
        f"table {table}: column {column!r} is of type {kind}, which Spark's Parquet reader cannot give; read a table "
        "or a view without it"
    )
