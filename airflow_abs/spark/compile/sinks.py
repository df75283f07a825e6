"""How a sink lays out its rows, checked in `plan` against the columns of the vertex."""

from __future__ import annotations

from collections.abc import Iterable

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.spark.compile.table_rows import check_columns_fit
from airflow_abs.spark.compile.vertices import CompiledVertex


def check_layouts(compiled: Iterable[CompiledVertex]) -> None:
    """The columns of `partition_by` and `sort_by` are there, can be names of folders and be sorted.

    Raises:
        JobGraphError: names the vertex, what was found and what to write.
    """
    from pyspark.sql import types

    texts_and_numbers = (types.StringType, types.NumericType, types.BooleanType)
    folders = (*texts_and_numbers, types.DateType, types.TimestampType, types.TimestampNTZType)
    for vertex in compiled:
        if vertex.sink is None:
            continue
        if isinstance(vertex.sink, TargetTable):
            check_columns_fit(vertex.name, vertex.schema, vertex.sink)
            continue
        by_name = {field.name: field.dataType for field in vertex.schema.fields}
        for what, names in (("partition_by", vertex.sink.partition_by), ("sort_by", vertex.sink.sort_by)):
            if missing := [name for name in names if name not in by_name]:
                raise JobGraphError(
                    f"vertex {vertex.name!r}: {what} of its sink names {missing[0]!r}, which its output does not have; "
                    f"its columns are {', '.join(by_name)}"
                )
            if unfit := [name for name in names if not isinstance(by_name[name], folders)]:
                raise JobGraphError(
                    f"vertex {vertex.name!r}: {what} of its sink names {unfit[0]!r}, which is "
                    f"{by_name[unfit[0]].simpleString()}; expected strings, numbers, booleans, dates or times. Cast "
                    "it in the transform, or name another column"
                )
        if set(vertex.sink.partition_by) == set(by_name):
            raise JobGraphError(
                f"vertex {vertex.name!r}: its sink is partitioned by all columns of its output, and nothing is left "
                "for the files; leave one out of partition_by"
            )
