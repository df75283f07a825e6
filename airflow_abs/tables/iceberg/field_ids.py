"""Field ids of all columns in the footer of a Parquet file that Spark wrote, as Iceberg wants them.

Spark writes the ids of columns and of the fields of structs, but has no place for those of the elements of lists and of
the keys and values of maps. Readers of the table would have to go by names there, which a table may change. The ids
stand in the footer's schema alone, so data and page indexes stay where they are.
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
https://iceberg.apache.org/spec/#parquet
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import BinaryIO

from pyiceberg.schema import Schema
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from airflow_abs.exchange.results.thrift_compact import (
    RawField,
    ThriftError,
    join_struct,
    join_structs,
    read_struct,
    split_struct,
    split_structs,
)

_SCHEMA = 2  # of FileMetaData
_MAGIC = b"PAR1"
_TAIL = 4 + len(_MAGIC)


class _SchemaElement(IntEnum):
    NAME = 4
    NUM_CHILDREN = 5
    FIELD_ID = 9


class ColumnsDifferError(ValueError):
    """The columns of the file are not those of the table."""


def lacks_ids(schema: Schema) -> bool:
    """Whether Spark leaves out ids of such columns: there is a list or a map among them, or in them."""
    return any(_has_many(field.field_type) for field in schema.fields)


def footer_with_ids(stream: BinaryIO, size: int, schema: Schema) -> tuple[int, bytes]:
    """Where a file's footer starts, and what takes the place of the bytes from there to its end.

    Raises:
        ColumnsDifferError, ThriftError: see `with_field_ids`; or it does not end as Parquet does.
    """
    stream.seek(max(0, size - _TAIL))
    tail = stream.read(_TAIL)
    start = size - _TAIL - int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or start < len(_MAGIC):
        raise ThriftError(f"{size} bytes that do not end as Parquet does")
    stream.seek(start)
    footer = with_field_ids(stream.read(size - _TAIL - start), schema)
    return start, footer + len(footer).to_bytes(4, "little") + _MAGIC


def with_field_ids(footer: bytes, schema: Schema) -> bytes:
    """The footer (`FileMetaData`) with the ids of all columns of `schema`, which the file has under their names.

    Raises:
        ColumnsDifferError: the file has other columns, or other ids.
        ThriftError: the footer cannot be decoded.
    """
    fields = split_struct(footer)
    elements = iter(split_structs(next(field.value for field in fields if field.id == _SCHEMA)))
    root = next(elements, b"")
    written = [root, *_struct(elements, _children(root), {field.name: field for field in schema.fields})]
    if next(elements, None) is not None:
        raise ColumnsDifferError("its schema has more columns than its root says")
    return join_struct(
        RawField(_SCHEMA, field.kind, join_structs(written)) if field.id == _SCHEMA else field for field in fields
    )


def _has_many(kind: IcebergType) -> bool:
    """Of values in a row."""
    return isinstance(kind, ListType | MapType) or (
        isinstance(kind, StructType) and any(_has_many(field.field_type) for field in kind.fields)
    )


def _struct(elements: Iterator[bytes], count: int, fields: dict[str, NestedField]) -> Iterator[bytes]:
    for _ in range(count):
        element = _next(elements)
        name = _name(element)
        if name not in fields:
            raise ColumnsDifferError(f"it has {name!r}, and the table {', '.join(map(repr, fields))}")
        yield _with_id(element, fields[name].field_id)
        yield from _inside(elements, _children(element), fields[name].field_type)


def _inside(elements: Iterator[bytes], count: int, kind: IcebergType) -> Iterator[bytes]:
    """What comes after a column's own element: nothing for one without parts."""
    match kind:
        case StructType():
            yield from _struct(elements, count, {field.name: field for field in kind.fields})
        case ListType():
            yield from _repeated(elements, [kind.element_field])
        case MapType():
            yield from _repeated(elements, [kind.key_field, kind.value_field])
        case _:
            if count:
                raise ColumnsDifferError(f"a column of type {kind} has {count} parts")


def _repeated(elements: Iterator[bytes], parts: list[NestedField]) -> Iterator[bytes]:
    """The group that is there for each element or entry, which has no id, and what it holds."""
    group = _next(elements)
    if _children(group) != len(parts):
        raise ColumnsDifferError(f"{_name(group)!r} has {_children(group)} parts, expected {len(parts)}")
    yield group
    for part in parts:
        element = _next(elements)
        yield _with_id(element, part.field_id)
        yield from _inside(elements, _children(element), part.field_type)


def _with_id(element: bytes, field_id: int) -> bytes:
    found = read_struct(element).get(_SchemaElement.FIELD_ID)
    if found == field_id:
        return element
    if found is not None:
        raise ColumnsDifferError(f"{_name(element)!r} has field id {found}, and {field_id} in the table")
    fields = [*split_struct(element), RawField.integer(_SchemaElement.FIELD_ID, field_id)]
    return join_struct(sorted(fields, key=lambda field: field.id))


def _next(elements: Iterator[bytes]) -> bytes:
    try:
        return next(elements)
    except StopIteration:
        raise ColumnsDifferError("its schema ends before its last column") from None


def _name(element: bytes) -> str:
    name = read_struct(element).get(_SchemaElement.NAME)
    if not isinstance(name, bytes):
        raise ThriftError("an element of the schema has no name")
    return name.decode("utf-8", "replace")


def _children(element: bytes) -> int:
    return int(read_struct(element).get(_SchemaElement.NUM_CHILDREN) or 0)
