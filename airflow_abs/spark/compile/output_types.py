"""Types that files cannot hold: found in `plan`, not when the rows have been computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from airflow_abs.core.errors import JobGraphError

_NOWHERE = frozenset({"interval", "void"})
"""``make_interval()`` and NULLs without a type, by Spark's `typeName`."""
_NOT_IN_CSV = frozenset({"struct", "array", "map"})


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
