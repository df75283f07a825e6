"""Tables of a Spark server's own catalog, each test's in a database of its own, with files below the test's folder."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

_SQL = {pa.int64(): "bigint", pa.string(): "string", pa.date32(): "date", pa.float64(): "double"}


@dataclass(frozen=True, slots=True)
class Warehouse:
    """A database; `session` is one on its server."""

    session: Any
    database: str
    folder: Path

    def run(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement answers; ``{db}`` is the database."""
        return [tuple(row) for row in self.session.sql(statement.replace("{db}", self.database)).collect()]

    def create(self, table: str, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        listed = ", ".join(f"`{field.name}` {_sql_type(field.type)}" for field in columns)
        (self.folder / table).mkdir()  # a metastore would do it
        by = f"PARTITIONED BY ({', '.join(partition_by)})" if partition_by else ""
        self.run(f"CREATE TABLE {{db}}.{table} ({listed}) USING parquet {by} LOCATION '{self.folder / table}'")

    def insert(self, table: str, rows: pa.Table, how: str = "INTO") -> None:
        """Add rows, as any writer by Spark does."""
        self.session.createDataFrame(rows).createOrReplaceTempView("added")
        names = ", ".join(f"`{column}`" for column in self.session.table(f"{self.database}.{table}").columns)
        self.run(f"INSERT {how} {{db}}.{table} SELECT {names} FROM added")

    def read(self, table: str) -> pa.Table:
        """By Spark's own reader, which has forgotten what it knew of files."""
        self.run(f"REFRESH TABLE {{db}}.{table}")
        found: pa.Table = self.session.table(f"{self.database}.{table}").toArrow()
        return found


@contextmanager
def open_warehouse(session: Any, folder: Path) -> Iterator[Warehouse]:
    database = f"w{uuid.uuid4().hex[:12]}"
    session.sql(f"CREATE DATABASE {database} LOCATION '{folder}'").collect()
    try:
        yield Warehouse(session, database, folder)
    finally:
        session.sql(f"DROP DATABASE {database} CASCADE").collect()


def _sql_type(kind: pa.DataType) -> str:
    return _SQL.get(kind) or f"decimal({kind.precision}, {kind.scale})"
