"""About how many bytes of Parquet a row takes, by the types of its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_abs.core.durability.prediction import ROWS_OVER_FILES

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_WORD = 8
_TEXT = 24
"""Bytes of a value that has no fixed size: Spark assumes 20 where it knows nothing, and keeps whole words."""


def estimate_row_bytes(schema: StructType) -> float:
    """A row of Spark's own format, which has a word for each value and eight bytes of NULL bits, as Parquet."""
    return (_WORD + _value_bytes(schema)) / ROWS_OVER_FILES


def _value_bytes(kind: DataType) -> int:
    from pyspark.sql.types import ArrayType, AtomicType, BinaryType, MapType, StringType, StructType

    match kind:
        case StructType():
            return sum(_value_bytes(field.dataType) for field in kind)
        case ArrayType():
            return _WORD + _value_bytes(kind.elementType)
        case MapType():
            return _WORD + _value_bytes(kind.keyType) + _value_bytes(kind.valueType)
        case AtomicType() if not isinstance(kind, (StringType, BinaryType)):
            return _WORD
        case _:
            return _WORD + _TEXT
