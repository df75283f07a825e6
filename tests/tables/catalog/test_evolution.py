"""A table whose columns are not what its files were written with: our rows are Spark's own, or both refuse.

Spark itself changes the columns of such a table by ADD COLUMNS alone; Hive renames, drops and retypes them in the
metastore and leaves the files as they are. So a case is files, and a table over them with the columns of today.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs import Table
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.table_contract import planned_tables
from tests.tables.catalog.warehouse import Warehouse

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

WRITTEN = pa.table(
    {
        "id": pa.array([1, None, 3], pa.int32()),
        "amount": pa.array([1.5, 2.5, None], pa.float32()),
        "price": pa.array([Decimal("1.25"), None, Decimal("-7.50")], pa.decimal128(6, 2)),
        "day": pa.array([date(2026, 1, 1), None, date(1969, 12, 31)]),
        "name": ["a", None, ""],
        "who": pa.array([{"name": "ann", "age": 30}, None, {"name": None, "age": 4}]),
        "tags": pa.array(
            [[{"key": "x", "n": 1}], [], None], pa.list_(pa.struct({"key": pa.string(), "n": pa.int32()}))
        ),
        "more": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    }
)
BEFORE = pa.table({"id": pa.array([7], pa.int32()), "gone": [True]})
READ = {
    "added": "id INT, amount FLOAT, later STRING, more MAP<STRING, INT>",
    "renamed": "id INT, total FLOAT, called STRING, who STRUCT<name: STRING, age: BIGINT>",
    "dropped and taken up again": "amount FLOAT, gone BOOLEAN, name STRING",
    "promoted": "id BIGINT, amount DOUBLE, price DECIMAL(18, 2), day TIMESTAMP_NTZ, tags ARRAY<STRUCT<n: BIGINT>>",
    "widened scale": "id DOUBLE, price DECIMAL(20, 6)",
    "nested, added": "who STRUCT<age: BIGINT, city: STRING, name: STRING>, tags ARRAY<STRUCT<n: INT, more: DATE>>",
    "nested, renamed": "id INT, who STRUCT<called: STRING, age: BIGINT>, tags ARRAY<STRUCT<label: STRING>>",
    "nested, promoted": "more MAP<STRING, BIGINT>, who STRUCT<name: STRING, age: DECIMAL(20, 0)>",
    "other capitals": "ID INT, Who STRUCT<NAME: STRING>",
}
MISMATCH = (
    r"PARQUET_COLUMN_DATA_TYPE_MISMATCH.* file .*\.parquet\. Data type mismatches when reading Parquet column \[{}\]"
)
REFUSED = {
    "name INT": MISMATCH.format("name"),
    "id STRING": MISMATCH.format("id"),
    "amount FLOAT, price DECIMAL(4, 1)": MISMATCH.format("price"),
    "who ARRAY<STRING>": r"/1\.parquet .* or its column types differ from the table's: rewrite it",
}


@pytest.fixture
def over_the_files(warehouse: Warehouse, tmp_path: Path) -> Iterator[Any]:
    folder = tmp_path / "files"
    folder.mkdir()
    for number, rows in enumerate((BEFORE, WRITTEN)):
        pq.write_table(rows, folder / f"{number}.parquet")

    def over_the_files(name: str, columns: str) -> Table:
        warehouse.run(f"CREATE TABLE {{db}}.{name} ({columns}) USING parquet LOCATION '{folder}'")
        return Table(f"{warehouse.database}.{name}")

    return over_the_files


def test_columns_of_today_over_files_of_yesterday_give_sparks_rows(
    warehouse: Warehouse, over_the_files: Any, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    vertices = {f"t{number}": {"source": over_the_files(f"t{number}", READ[case])} for number, case in enumerate(READ)}
    with planned_tables(connect_server, tmp_path / "exchange", vertices) as tables:
        for count in (1, 2):
            done = tables.run(count)
            for vertex, case in zip(vertices, READ, strict=True):
                assert describe_difference(done[vertex].rows, warehouse.read(vertex)) is None, case


@pytest.mark.sample
@pytest.mark.parametrize("columns", REFUSED)
def test_types_that_spark_cannot_read_from_the_files_fail_and_name_the_file(
    warehouse: Warehouse, over_the_files: Any, tmp_path: Path, connect_server: ConnectEndpoint, columns: str
) -> None:
    from pyspark.errors import PySparkException

    source = over_the_files("t", columns)
    with pytest.raises(PySparkException):
        warehouse.read("t")
    with (
        planned_tables(connect_server, tmp_path / "exchange", {"t": {"source": source}}) as tables,
        pytest.raises(SparkOperationError, match=REFUSED[columns]) as caught,
    ):
        tables.run(1)
    assert not caught.value.restartable


def test_a_file_that_is_not_parquet_fails_and_is_named(
    over_the_files: Any, tmp_path: Path, connect_server: ConnectEndpoint
) -> None:
    source = over_the_files("t", "id INT")
    (tmp_path / "files" / "2.orc").write_bytes(b"ORC" + bytes(100))
    with (
        planned_tables(connect_server, tmp_path / "exchange", {"t": {"source": source}}) as tables,
        pytest.raises(SparkOperationError, match=r"2\.orc is gone, .* it is not a Parquet file") as caught,
    ):
        tables.run(1)
    assert not caught.value.restartable
