"""A database, reached by its own driver beside the code that is tested."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs import PostgresTable
from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.declared import find_targets
from airflow_abs.tables.publishing.publication import publish_staged
from airflow_abs.tables.source import Pin
from airflow_abs.testing.table_contract import stage_file

PASSWORD = "zebra-9-quartz"


@dataclass(frozen=True)
class Warehouse:
    port: int
    database: str

    @property
    def properties(self) -> dict[str, str]:
        return {
            "host": "127.0.0.1",
            "port": str(self.port),
            "dbname": self.database,
            "user": "airflow",
            "password": PASSWORD,
        }

    @property
    def access(self) -> TableAccess:
        return TableAccess(lambda conn_id: self.properties, Path)

    def open(self) -> Any:
        return psycopg2.connect(**self.properties)

    def execute(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """In a transaction of its own; what comes back, if anything does."""
        with closing(self.open()) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else []

    def land(self, folder: Path, **declared: Any) -> Pin:
        return PostgresTable("warehouse", **declared).land(self.access, folder)

    def target(self, **declared: Any) -> Any:
        return find_targets({"t": PostgresTable("warehouse", **declared)}, self.access)["t"]

    def publish(
        self,
        target: Any,
        folder: Path,
        rows: list[Mapping[str, Any]] | pa.Table,
        run: str = "monday",
        on_step: Callable[[str], None] = lambda step: None,
        publisher: Publisher | None = None,
    ) -> dict[str, Any]:
        """Publish rows as a subtask leaves them."""
        table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows)
        staged = [stage_file(folder, table)] if len(table) else []
        publisher = publisher or Publisher(f"dag/{run}/job/t")
        return publish_staged(target, staged, publisher=publisher, access=self.access, on_step=on_step)


def rows_in(pin: Pin) -> pa.Table:
    """What was landed, in order."""
    tables = [pq.read_table(file.path.removeprefix("file://")) for file in pin.files]
    return pa.concat_tables(tables)
