"""Values of Iceberg's types as SQL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)
from pyiceberg.utils.datetime import micros_to_timestamp

from airflow_abs.core.sql_names import text_literal


def spark_literal(kind: IcebergType, value: Any) -> str:
    """A value of a column as SQL that means the same in every session: no time zone, no setting of its parser.

    Args:
        kind: the column's type.
        value: as pyiceberg has it: days of a date, microseconds of a time.

    Raises:
        ValueError: there is no such literal for the type.
    """
    if type(kind) not in _WRITERS:
        raise ValueError(f"columns of type {kind} cannot be compared with literals")
    return _WRITERS[type(kind)](value)


def _decimal(value: Decimal) -> str:
    digits, scale = len(value.as_tuple().digits), -int(value.as_tuple().exponent)
    return f"CAST('{value:f}' AS DECIMAL({max(digits, scale)},{scale}))"


def _cast_to(kind: str) -> Callable[[Any], str]:
    return lambda value: f"CAST('{value!r}' AS {kind})"


_WRITERS: dict[type[IcebergType], Callable[[Any], str]] = {
    BooleanType: lambda value: "TRUE" if value else "FALSE",
    IntegerType: _cast_to("INT"),
    LongType: _cast_to("BIGINT"),
    FloatType: _cast_to("FLOAT"),
    DoubleType: _cast_to("DOUBLE"),
    DecimalType: _decimal,
    DateType: lambda value: f"date_from_unix_date({value})",
    TimestampType: lambda value: f"TIMESTAMP_NTZ'{micros_to_timestamp(value).isoformat(sep=' ')}'",
    TimestamptzType: lambda value: f"timestamp_micros({_cast_to('BIGINT')(value)})",
    StringType: text_literal,
}
