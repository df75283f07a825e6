"""`PostgresTable` keeps the contract of a source and of a sink, as any kind of table must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_abs import PostgresTable
from airflow_abs.testing import TableSinkContract, TableSourceContract
from airflow_abs.testing.table_contract import make_rows
from tests.tables.postgres.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

_TYPES = {"id": "bigint", "region": "text", "day": "date", "amount": "double precision", "price": "numeric(9, 2)"}


class PostgresTables:
    modes = ("append", "overwrite")
    conditions: dict[str, str] = {}  # noqa: RUF012 - they are PostgreSQL's, and leave out rows and no files
    has_partitions = False

    @pytest.fixture(autouse=True)
    def _warehouse(self, warehouse: Warehouse, request: pytest.FixtureRequest) -> None:
        self.warehouse, self.request = warehouse, request

    def endpoint(self) -> ConnectEndpoint:
        server: ConnectEndpoint = self.request.getfixturevalue("connect_server")
        return server

    def declare(self, **arguments: Any) -> PostgresTable:
        return PostgresTable("warehouse", "public.t", **arguments)

    def create(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        columns_sql = ", ".join(f"{name} {_TYPES[name]}" for name in columns.names)
        self.warehouse.execute(f"CREATE TABLE t ({columns_sql})")

    def append(self, rows: pa.Table) -> None:
        for row in rows.to_pylist():
            self.warehouse.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", *row.values())

    def overwrite(self, rows: pa.Table) -> None:
        self.warehouse.execute("DELETE FROM t")
        self.append(rows)

    def read(self) -> pa.Table:
        schema = make_rows(0, 0).schema
        found = self.warehouse.execute(f"SELECT {', '.join(schema.names)} FROM t")
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema=schema)


@pytest.mark.cluster
@pytest.mark.spark
class TestPostgresSource(PostgresTables, TableSourceContract):
    pass


@pytest.mark.sample
@pytest.mark.cluster
@pytest.mark.spark
class TestPostgresSink(PostgresTables, TableSinkContract):
    pass
