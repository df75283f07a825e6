"""What rows must be like to become files of a table in Spark's catalog."""

from __future__ import annotations

import json

from airflow_abs.exchange.publish.target_table import TableMode, TargetPartition, TargetTable
from airflow_abs.exchange.storage.uris import with_authority
from airflow_abs.tables.catalog.description import TableDescription, check_readable, describe, shown_columns
from airflow_abs.tables.catalog.statements import SparkCatalog, StatementError, quote_table, refused
from airflow_abs.tables.delta.partition_values import write_expression
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.spark_settings import WRITE_SETTINGS

_WRITTEN = ("string", "boolean", "date", "long", "integer", "short", "byte")


def read_target(name: str, catalog: SparkCatalog, *, storage: str, mode: TableMode) -> TargetTable:
    """What the table is now.

    Args:
        storage: the Airflow connection of its storage; empty for what needs none.

    Raises:
        TableError: see `describe`, `check_readable`, `shown_columns`; it is bucketed, or partitioned by what cannot be
            written; a mode that it has no use for.
    """
    quoted = quote_table(name)
    found = describe(name, catalog, quoted)
    check_readable(name, found)
    if found.num_buckets:
        raise TableError(
            f"table {name}: is bucketed, and the files of a run are not; publish to a table without CLUSTERED BY"
        )
    if mode == "overwrite_partitions" and not found.partition_columns:
        raise TableError(
            f"table {name}: mode='overwrite_partitions' replaces partitions, and it has none; use mode 'overwrite' or "
            "'append'"
        )
    try:
        schema = catalog.schema(quoted)
    except StatementError as error:
        raise refused(name, f"the columns of {quoted}", error) from error
    columns = shown_columns(name, schema)
    types = {column["name"]: column["type"] for column in columns}
    for column in found.partition_columns:
        if not (types[column] in _WRITTEN or str(types[column]).startswith("decimal(")):
            raise TableError(
                f"table {name}: is partitioned by {column!r}, which is {types[column]}; expected a string, an "
                "integer, a decimal, a boolean or a date. Publish to a table partitioned so, or to Files(...)"
            )
    return TargetTable(
        table=found.name,
        conn_id=storage,
        mode=mode,
        uuid=identity_of(found),
        folder=with_authority(found.location),
        schema=json.dumps({"type": "struct", "fields": columns}),
        required=tuple(each["name"] for each in json.loads(schema)["fields"] if not each["nullable"]),
        partitions=tuple(
            TargetPartition(f"__partition_{number}", write_expression(kind, column), kind)
            for number, column in enumerate(found.partition_columns)
            for kind in (str(types[column]),)
        ),
        settings=WRITE_SETTINGS,
        details={"name": name, "folder": with_authority(found.location)},
        not_in_files=found.partition_columns,
    )


def identity_of(found: TableDescription) -> str:
    """What a table of the same name that was created later does not have."""
    return f"{found.name} of {found.created_time}"
