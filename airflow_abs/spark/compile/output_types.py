"""Columns and types that files cannot hold: found in `plan`, not when the rows have been computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.results.parquet_bytes import SUBPARTITION_COLUMN

_NOWHERE = frozenset({"interval", "void"})
"""``make_interval()`` and NULLs without a type, by Spark's `typeName`."""
_NOT_IN_CSV = frozenset({"struct", "array", "map"})


def check_columns(vertex: str, schema: Any) -> None:
    """The output can be written to files and read back.

    Raises:
        JobGraphError: no columns, two of one name, one without a type, or the reserved name.
    """
    from pyspark.sql.types import NullType

    if not schema.names:
        raise JobGraphError(f"vertex {vertex!r}: its output has no columns; select at least one")
    twice = [name for name, times in Counter(name.lower() for name in schema.names).items() if times > 1]
    if twice:
        raise JobGraphError(
            f"vertex {vertex!r}: its output has several columns named {', '.join(twice)}; rename or drop them, for "
            "example with join(..., on='key') instead of a column expression"
        )
    if SUBPARTITION_COLUMN in schema.names:
        raise JobGraphError(
            f"vertex {vertex!r}: its output has a column {SUBPARTITION_COLUMN!r}, which is reserved; rename it"
        )
    untyped = [entry.name for entry in schema.fields if isinstance(entry.dataType, NullType)]
    if untyped:
        raise JobGraphError(
            f"vertex {vertex!r}: column {', '.join(untyped)} of its output has no type (NULL only); cast "
            "it, for example "
            "lit(None).cast('string')"
        )


def check_types(vertex: str, schema: Any, file_format: str) -> None:
    """The columns of an output can be written in a format.

    Args:
        vertex: its name.
        schema: a `StructType`.
        file_format: of its sink; parquet for one that only other vertices read.

    Raises:
        JobGraphError: names the columns with their types.
    """
    refused = _NOWHERE | (_NOT_IN_CSV if file_format == "csv" else frozenset())
    found = [
        f"{field.name} ({field.dataType.simpleString()})"
        for field in schema.fields
        if any(kind in refused for kind in _kinds(field.dataType))
    ]
    if found:
        raise JobGraphError(
            f"vertex {vertex!r}: {file_format} files cannot hold column {', '.join(found)} of its output; give it "
            "another type, for example cast('string') or to_json()"
        )


def _kinds(data_type: Any) -> Iterator[str]:
    """The names of a type and of all types in it."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield data_type.typeName()
    match data_type:
        case StructType():
            inner = [field.dataType for field in data_type.fields]
        case ArrayType():
            inner = [data_type.elementType]
        case MapType():
            inner = [data_type.keyType, data_type.valueType]
        case _:
            inner = []
    for each in inner:
        yield from _kinds(each)
