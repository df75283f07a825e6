"""What rows must be like to become rows of a PostgreSQL table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.columns import choose, describe, spark_schema, written_columns
from airflow_abs.tables.postgres.connection import Connection, fetch_all, open_transaction, refusals
from airflow_abs.tables.postgres.relation import (
    Relation,
    check_alone,
    find_relation,
    identities_with_partitions,
    identity_of,
)
from airflow_abs.tables.spark_settings import WRITE_SETTINGS

FIRST_VERSION = 130000
"""With `xid8`."""

_NOT_OURS = """
SELECT attname FROM pg_attribute
WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND (attgenerated <> '' OR attidentity = 'a')
"""


@dataclass(frozen=True, slots=True)
class Declared:
    """A sink as the DAG declares it."""

    label: str
    conn_id: str
    table: str
    mode: Literal["append", "overwrite"]
    columns: tuple[str, ...]
    where: str | None


def read_target(declared: Declared, properties: Mapping[str, str]) -> TargetTable:
    """What the table is now.

    Raises:
        TableError: it is not there, no table, or has no such columns; rows of other tables would go with those that are
            replaced; the server refuses, or is too old.
    """
    advice = "check the table, where=, and the rights of the connection's login"
    label = declared.label
    with (
        refusals(label, properties, "asked for its columns", advice),
        open_transaction(label, properties, readonly=True) as connection,
    ):
        if connection.server_version < FIRST_VERSION:
            raise TableError(
                f"table {label}: is on a PostgreSQL server with the version number {connection.server_version}; "
                "expected 13 "
                f"({FIRST_VERSION}) or newer to publish to"
            )
        relation = find_relation(connection, label, declared.table)
        if not relation.is_table:
            raise TableError(f"table {label}: is not a table; expected a table, not a view, to publish to")
        described = describe(connection, relation.sql)
        ours = declared.columns or _settable(connection, relation, [each.name for each in described])
        columns = written_columns(choose(label, described, ours))
        if declared.where is not None:
            condition = f"SELECT FROM {relation.sql} WHERE (\n{declared.where}\n)"
            fetch_all(connection, f"EXPLAIN {condition}")
        if declared.mode == "overwrite":
            check_alone(connection, label, relation, whole=declared.where is None)
        uuid = identity_of(connection, properties, relation)
        parts = identities_with_partitions(connection, properties, relation)
    return TargetTable(
        table=label,
        conn_id=declared.conn_id,
        mode=declared.mode,
        uuid=uuid,
        parts=tuple(each for each in parts if each != uuid),
        schema=spark_schema(columns),
        settings=WRITE_SETTINGS,
        details={"table": declared.table, "where": declared.where, "oid": relation.oid},
    )


def _settable(connection: Connection, relation: Relation, names: list[str]) -> list[str]:
    """Less those whose values PostgreSQL makes itself, always."""
    made = {name for (name,) in fetch_all(connection, _NOT_OURS, relation.oid)}
    return [name for name in names if name not in made]
