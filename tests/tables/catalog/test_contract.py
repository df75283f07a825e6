"""`Table` keeps the contract of a source and of a sink, as any kind of table must."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_abs import Table
from airflow_abs.testing import TableSinkContract, TableSourceContract
from airflow_abs.testing.table_contract import make_rows
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


class CatalogTables:
    """Tables of Spark's own making; who overwrites one writes elsewhere, and moves the table there."""

    parallelisms = (3,)  # test_source.py has 1, 3 and 8

    @pytest.fixture(autouse=True)
    def _warehouse(self, warehouse: Warehouse, request: pytest.FixtureRequest) -> None:
        self.warehouse, self.request = warehouse, request
        self.overwritten = 0

    def endpoint(self) -> ConnectEndpoint:
        server: ConnectEndpoint = self.request.getfixturevalue("connect_server")
        return server

    def declare(self, **arguments: Any) -> Table:
        return Table(f"{self.warehouse.database}.t", **arguments)

    def create(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        self.warehouse.create("t", columns, partition_by)

    def append(self, rows: pa.Table) -> None:
        self.warehouse.insert("t", rows)

    def overwrite(self, rows: pa.Table) -> None:
        self.overwritten += 1
        folder = self.warehouse.folder / f"t-{self.overwritten}"
        folder.mkdir()
        self.warehouse.run(f"ALTER TABLE {{db}}.t SET LOCATION '{folder}'")
        self.append(rows)

    def read(self) -> pa.Table:
        return self.warehouse.read("t").select(make_rows(0, 0).column_names)


@pytest.mark.spark
class TestTableSource(CatalogTables, TableSourceContract):
    conditions: dict[str, str] = {}  # noqa: RUF012 - they leave out partitions, see test_source.py


@pytest.mark.spark
class TestTableSink(CatalogTables, TableSinkContract):
    has_partitions = False  # theirs have an empty string, which is NULL as a partition of Spark's
