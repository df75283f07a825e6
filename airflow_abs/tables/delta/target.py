"""What rows must be like to become files of a Delta table: its columns, less those whose values stand in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_abs.exchange.publish.target_table import TableMode, TargetPartition, TargetTable
from airflow_abs.tables.delta.columns import read_columns, stored_fields
from airflow_abs.tables.delta.features import check_writable
from airflow_abs.tables.delta.partition_values import is_written, write_expression
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.publishing.required_values import required_inside
from airflow_abs.tables.spark_settings import WRITE_SETTINGS

if TYPE_CHECKING:
    from deltalake import DeltaTable


def read_target(name: str, table: DeltaTable, *, conn_id: str, mode: TableMode) -> TargetTable:
    """What the table is now.

    Raises:
        TableError: a feature, see `check_writable`; a type or a partition that cannot be written; a mode that it has no
            use for.
    """
    check_writable(name, table, mode)
    columns = read_columns(name, table)
    if mode == "overwrite_partitions" and not columns.partitions:
        raise TableError(
            f"table {name}: mode='overwrite_partitions' replaces partitions, and it has none; use mode 'overwrite' or "
            "'append'"
        )
    for column in columns.partitions:
        if not is_written(columns.type_of(column)):
            raise TableError(
                f"table {name}: is partitioned by {column!r}, which is {columns.type_of(column)}; expected a string, "
                "an integer, a decimal, a boolean, a date or a time. Publish to a table partitioned so, or to "
                "Files(...) and load it from there"
            )
    return TargetTable(
        table=name,
        conn_id=conn_id,
        mode=mode,
        uuid=str(table.metadata().id),
        schema=columns.schema,
        required=tuple(field["name"] for field in stored_fields(table) if not field["nullable"]),
        required_inside=tuple(required_inside(pa.schema(table.schema().to_arrow()))),
        partitions=tuple(
            TargetPartition(f"__partition_{number}", write_expression(kind, column), kind)
            for number, column in enumerate(columns.partitions)
            for kind in (columns.type_of(column),)
        ),
        settings=WRITE_SETTINGS,
        details={"version": table.version()},
        not_in_files=columns.partitions,
    )
