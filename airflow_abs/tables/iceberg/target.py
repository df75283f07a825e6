"""What rows must be like to become files of an Iceberg table: columns with their ids, and partition values.

Spark writes the partition values as names of folders. They are computed in Iceberg's own terms, whatever the time zone
of the session is, and texts get a letter in front: Spark takes an empty one for NULL.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyiceberg.transforms import (
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from airflow_abs.core.sql_names import quote
from airflow_abs.exchange.publish.target_table import TableMode, TargetPartition, TargetTable
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.iceberg.spark_schema import spark_schema
from airflow_abs.tables.publishing.required_values import required_inside
from airflow_abs.tables.spark_settings import WRITE_SETTINGS

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table

TEXT_PREFIX = "v"

_HIGHEST_FORMAT = 2
_MICROS_OF_A_DAY = 86_400_000_000
_MICROS_OF_AN_HOUR = 3_600_000_000


def read_target(name: str, table: Table, *, conn_id: str, mode: TableMode) -> TargetTable:
    """What the table is now.

    Raises:
        TableError: a format version, a type or a partition that cannot be written; a mode that it has no use for.
    """
    if table.format_version > _HIGHEST_FORMAT:
        raise TableError(
            f"table {name}: is of format version {table.format_version}, which pyiceberg does not write; expected 1 or "
            "2. Publish to a table of version 2"
        )
    schema, spec = table.schema(), table.spec()
    _check_fields(name, schema.fields)
    partitions = tuple(
        _partition(name, schema.find_field(field.source_id), field, number)
        for number, field in enumerate(spec.fields)
        if not isinstance(field.transform, VoidTransform)
    )
    if mode == "overwrite_partitions" and not partitions:
        raise TableError(
            f"table {name}: mode='overwrite_partitions' replaces partitions, and it has none; use mode 'overwrite' or "
            "'append'"
        )
    return TargetTable(
        table=name,
        conn_id=conn_id,
        mode=mode,
        uuid=str(table.metadata.table_uuid),
        folder=table.location(),
        schema=spark_schema(name, schema).schema,
        details={
            "schema_id": schema.schema_id,
            "spec_id": spec.spec_id,
            "snapshot": current.snapshot_id if (current := table.current_snapshot()) is not None else None,
        },
        required=tuple(field.name for field in schema.fields if field.required),
        required_inside=tuple(required_inside(schema.as_arrow())),
        partitions=partitions,
        settings={**WRITE_SETTINGS, "spark.sql.parquet.fieldId.write.enabled": "true"},
    )


def _check_fields(name: str, fields: Iterable[NestedField]) -> None:
    """Spark has no bytes of a fixed length."""
    for field in fields:
        kind = field.field_type
        if isinstance(kind, FixedType):
            raise TableError(
                f"table {name}: column {field.name!r} is of type {kind}, which Spark does not write; publish to a "
                "table in which it is binary"
            )
        match kind:
            case StructType():
                _check_fields(name, kind.fields)
            case ListType():
                _check_fields(name, [kind.element_field])
            case MapType():
                _check_fields(name, [kind.key_field, kind.value_field])


def _partition(name: str, column: NestedField, field: PartitionField, number: int) -> TargetPartition:
    expression = _expression(column.field_type, field.transform, quote(column.name))
    if expression is None:
        raise TableError(
            f"table {name}: is partitioned by {field.transform} of {column.name!r} ({column.field_type}), which Spark "
            "cannot compute as Iceberg does; expected identity, year, month, day, hour or truncate of a date, a "
            "time, an integer or a string. Publish to a table partitioned so, or to Files(...) and load it from there"
        )
    kind = field.transform.result_type(column.field_type)
    return TargetPartition(f"__partition_{number}", f"CAST({expression} AS STRING)", str(kind))


def _expression(kind: IcebergType, transform: Transform, column: str) -> str | None:  # type: ignore[type-arg]
    match transform:
        case IdentityTransform():
            return _identity(kind, column)
        case TruncateTransform():
            return _truncated(kind, column, transform.width)
        case HourTransform():
            return _hours(kind, column)
        case DayTransform() | MonthTransform() | YearTransform():
            return _of_day(kind, transform, column)
    return None


def _identity(kind: IcebergType, column: str) -> str | None:
    match kind:
        case StringType():
            return f"concat('{TEXT_PREFIX}', {column})"
        case DateType():
            return f"unix_date({column})"
        case IntegerType() | LongType() | BooleanType() | DecimalType():
            return column
    return None


def _truncated(kind: IcebergType, column: str, width: int) -> str | None:
    match kind:
        case StringType():
            return f"concat('{TEXT_PREFIX}', substring({column}, 1, {width}))"
        case IntegerType() | LongType():
            return f"{column} - pmod({column}, {width})"
    return None


def _of_day(kind: IcebergType, transform: Transform, column: str) -> str | None:  # type: ignore[type-arg]
    days = _days(kind, column)
    if days is None or isinstance(transform, DayTransform):
        return days
    date = f"date_from_unix_date(CAST({days} AS INT))"
    years = f"year({date}) - 1970"
    return years if isinstance(transform, YearTransform) else f"({years}) * 12 + month({date}) - 1"


def _days(kind: IcebergType, column: str) -> str | None:
    match kind:
        case DateType():
            return f"unix_date({column})"
        case TimestampType():
            return f"unix_date(CAST({column} AS DATE))"
        case TimestamptzType():
            return _units(column, _MICROS_OF_A_DAY)
    return None


def _hours(kind: IcebergType, column: str) -> str | None:
    match kind:
        case TimestampType():
            return f"unix_date(CAST({column} AS DATE)) * 24 + hour({column})"
        case TimestamptzType():
            return _units(column, _MICROS_OF_AN_HOUR)
    return None


def _units(column: str, micros: int) -> str:
    """Whole units since 1970 in UTC, rounded down before it, too."""
    return f"(unix_micros({column}) - pmod(unix_micros({column}), {micros})) div {micros}"
