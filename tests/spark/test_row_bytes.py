"""About how many bytes of Parquet a row takes."""

from __future__ import annotations

import pytest
from pyspark.sql import types as t

from airflow_abs.spark.row_bytes import estimate_row_bytes


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ((t.LongType(), t.DecimalType(12, 2)), 6),  # (8 + 2 * 8) / 4
        ((t.IntegerType(), t.StringType()), 12),  # (8 + 8 + 32) / 4
        ((t.ArrayType(t.IntegerType()), t.StructType().add("a", t.DateType()).add("b", t.BinaryType())), 16),
        ((t.MapType(t.StringType(), t.DoubleType()),), 14),  # (8 + 8 + 32 + 8) / 4
    ],
)
def test_a_row_takes_a_quarter_of_what_it_takes_in_spark(kinds: tuple[t.DataType, ...], expected: float) -> None:
    schema = t.StructType([t.StructField(f"c{number}", kind) for number, kind in enumerate(kinds)])
    assert estimate_row_bytes(schema) == expected
