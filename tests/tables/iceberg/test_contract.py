"""`IcebergTable` keeps the contract of a source and of a sink, as any kind of table must."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_abs import IcebergTable
from airflow_abs.testing import TableSinkContract, TableSourceContract

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


class IcebergTables:
    """Tables of pyiceberg's own, in a catalog on SQLite."""

    @pytest.fixture(autouse=True)
    def _lake(
        self,
        catalog: Any,
        properties: dict[str, str],
        monkeypatch: pytest.MonkeyPatch,
        request: pytest.FixtureRequest,
    ) -> None:
        monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
        self.catalog, self.request = catalog, request

    def endpoint(self) -> ConnectEndpoint:
        server: ConnectEndpoint = self.request.getfixturevalue("connect_server")
        return server

    def declare(self, **arguments: Any) -> IcebergTable:
        return IcebergTable("lake.db.t", **arguments)

    def create(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        table = self.catalog.create_table("db.t", columns)
        with table.update_spec() as update:
            for column in partition_by:
                update.add_identity(column)

    def append(self, rows: pa.Table) -> None:
        self.catalog.load_table("db.t").append(rows)

    def overwrite(self, rows: pa.Table) -> None:
        self.catalog.load_table("db.t").overwrite(rows)

    def read(self) -> pa.Table:
        return self.catalog.load_table("db.t").scan().to_arrow()


@pytest.mark.spark
class TestIcebergSource(IcebergTables, TableSourceContract):
    pass


@pytest.mark.sample
@pytest.mark.spark
class TestIcebergSink(IcebergTables, TableSinkContract):
    pass
