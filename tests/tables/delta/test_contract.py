"""`DeltaTable` keeps the contract of a source and of a sink, as any kind of table must."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs import DeltaTable
from airflow_abs.testing import TableSinkContract, TableSourceContract

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint


class DeltaTables:
    """Tables of deltalake's own, in a folder."""

    @pytest.fixture(autouse=True)
    def _lake(self, tmp_path: Path, request: pytest.FixtureRequest) -> None:
        self.path, self.request = tmp_path / "lake" / "t", request

    def endpoint(self) -> ConnectEndpoint:
        server: ConnectEndpoint = self.request.getfixturevalue("connect_server")
        return server

    def declare(self, **arguments: Any) -> DeltaTable:
        return DeltaTable(str(self.path), **arguments)

    def create(self, columns: pa.Schema, partition_by: Sequence[str] = ()) -> None:
        write_deltalake(self.path, columns.empty_table(), partition_by=list(partition_by) or None)
        self.names = columns.names

    def append(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def overwrite(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="overwrite")

    def read(self) -> pa.Table:
        return Library(self.path).to_pyarrow_table().select(self.names)


@pytest.mark.spark
class TestDeltaSource(DeltaTables, TableSourceContract):
    pass


@pytest.mark.sample
@pytest.mark.spark
class TestDeltaSink(DeltaTables, TableSinkContract):
    has_partitions = False  # theirs have an empty string, which is refused: Delta cannot tell it from NULL
