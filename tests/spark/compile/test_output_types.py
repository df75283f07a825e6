"""Columns that no file of the format can hold are refused when the transform is compiled."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from airflow_abs.core.errors import JobGraphError
from airflow_abs.spark.compile.output_types import check_types

NESTED = StructType([StructField("x", MapType(StringType(), ArrayType(LongType())))])


@pytest.mark.parametrize(
    ("data_type", "file_format", "shown"),
    [
        (CalendarIntervalType(), "parquet", "value (interval)"),
        (ArrayType(CalendarIntervalType()), "orc", "value (array<interval>)"),
        (ArrayType(NullType()), "json", "value (array<void>)"),
        (StructType([StructField("x", NullType())]), "parquet", "value (struct<x:void>)"),
        (NESTED, "csv", "value (struct<x:map<string,array<bigint>>>)"),
        (ArrayType(LongType()), "csv", "value (array<bigint>)"),
    ],
)
def test_a_type_that_files_cannot_hold_is_refused(data_type: DataType, file_format: str, shown: str) -> None:
    schema = StructType([StructField("id", LongType()), StructField("value", data_type)])
    with pytest.raises(JobGraphError) as caught:
        check_types("step", schema, file_format)
    assert str(caught.value) == (
        f"vertex 'step': {file_format} files cannot hold column {shown} of its output; give it another type, for "
        "example cast('string') or to_json()"
    )


@pytest.mark.parametrize(
    ("data_type", "file_format"),
    [(NESTED, "parquet"), (NESTED, "orc"), (NESTED, "json"), (StringType(), "csv"), (DayTimeIntervalType(), "parquet")],
)
def test_a_type_that_files_hold_passes(data_type: DataType, file_format: str) -> None:
    check_types("step", StructType([StructField("value", data_type)]), file_format)
