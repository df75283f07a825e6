"""The tests of `shelf.py`: the contract of every kind of table."""

import json
import uuid
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType
from shelf import ShelfTable, create, newest

from airflow_abs.testing import TableSinkContract, TableSourceContract


class TestShelfTable(TableSourceContract, TableSinkContract):
    modes = ("append", "overwrite")
    conditions = {}  # it has no where=
    has_partitions = False

    @pytest.fixture(autouse=True)
    def shelf(self, tmp_path):
        self.path = str(tmp_path / "shelf")

    def declare(self, **arguments):
        return ShelfTable(self.path, **arguments)

    def create(self, columns, partition_by=()):
        Path(self.path, "versions").mkdir(parents=True)
        create(self.path, 0, {"schema": from_arrow_schema(columns).json(), "files": [], "runs": {}})

    def append(self, rows):
        self.write(newest(self.path)[1]["files"], rows)

    def overwrite(self, rows):
        self.write([], rows)

    def read(self):
        version = newest(self.path)[1]
        columns = to_arrow_schema(StructType.fromJson(json.loads(version["schema"])))
        files = [f"{self.path}/{file['name']}" for file in version["files"]]
        return pq.read_table(files, schema=columns) if files else columns.empty_table()

    def write(self, kept, rows):
        number, version = newest(self.path)
        file = Path(self.path, f"{uuid.uuid4().hex}.parquet")
        pq.write_table(rows, file)
        written = {"name": file.name, "bytes": file.stat().st_size, "run": None}
        create(self.path, number + 1, version | {"files": [*kept, written]})
