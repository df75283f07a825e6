"""Least and greatest value of a column in a data file, from the bounds that its writer left in the table's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.manifest import DataFile
from pyiceberg.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from airflow_abs.core.pruning.value_ranges import Span, Value

_WHOLE: Mapping[Any, tuple[int, ...]] = {
    IntegerType: (4,),
    LongType: (4, 8),
    DateType: (4,),
    TimestampType: (8,),
    TimestamptzType: (8,),
}
"""Lengths of bounds in bytes; those of a column that was promoted from INT to BIGINT may be of before."""


def span_of(file: DataFile, column: NestedField) -> Span | None:
    """None where unknown, empty where the column is NULL in every row; texts may be cut, but never inwards."""
    number = column.field_id
    nulls = (file.null_value_counts or {}).get(number)
    if nulls is not None and nulls == file.record_count:
        return ()
    low, high = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
    ends = [_value(column.field_type, bound) for bound in (low, high)]
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _value(kind: Any, bound: bytes | None) -> Value | None:
    """Of a bound as Iceberg writes it: little-endian numbers, big-endian digits of decimals, UTF-8."""
    if bound is None:
        return None
    if isinstance(kind, DecimalType):
        return int.from_bytes(bound, "big", signed=True)
    if isinstance(kind, StringType):
        try:
            return bound.decode()
        except UnicodeDecodeError:
            return None
    if len(bound) in _WHOLE.get(type(kind), ()):
        return int.from_bytes(bound, "little", signed=True)
    return None
