"""A Delta table as the source of a vertex: its rows are the library's own, whatever its history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from airflow.sdk import DAG
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, VertexOptions
from airflow_abs.tables.access import TableAccess
from airflow_abs.testing import run_locally
from airflow_abs.testing.rows import describe_difference
from tests.tables.delta.staging import append_log

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("amt", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.struct([("key", pa.string())]))),
        ("more", pa.map_(pa.string(), pa.int64())),
        ("region", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("flag", pa.bool_()),
        ("cents", pa.decimal128(6, 2)),
        ("small", pa.int16()),
        ("ratio", pa.float64()),
    ]
)
PARTITIONS = ["region", "day", "at", "local", "flag", "cents", "small", "ratio"]
REGIONS = ["north", None, "a/b%=c +", "ünï\u00a0", "[x]{y}*?#&;'\"", "__HIVE"]


def rows(count: int) -> pa.Table:
    epoch = datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    listed = []
    for number in range(count):
        at = None if number % 5 == 0 else epoch + timedelta(days=number * 365, microseconds=number)
        listed.append(
            {
                "id": number if number % 7 else None,
                "amt": number / 8,
                "price": Decimal(number) / 4,
                "who": None if number % 3 == 0 else {"name": f"n{number}", "age": number},
                "tags": [] if number % 2 else [{"key": "x"}, {"key": None}],
                "more": [(str(number), number)],
                "region": REGIONS[number % len(REGIONS)],
                "day": None if number % 4 == 0 else date(1969, 12, 1) + timedelta(days=number),
                "at": at,
                "local": at.replace(tzinfo=None) if at else None,
                "flag": [True, False, None][number % 3],
                "cents": None if number % 6 == 0 else Decimal(number) / 2,
                "small": number % 2 - 1,
                "ratio": 0.1 * (number % 2),
            }
        )
    return pa.Table.from_pylist(listed, schema=COLUMNS)


Read = Callable[..., pa.Table]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "t +ü"


@pytest.fixture
def read(connect_server: ConnectEndpoint, table: Path) -> Read:
    def read(parallelism: int, transform: Any = None, **arguments: Any) -> pa.Table:
        with DAG("tables"), AdaptiveSparkJob("job") as job:
            AdaptiveSparkOperator(
                task_id="t",
                source=DeltaTable(str(table), **arguments),
                transform=transform,
                options=VertexOptions(spark_conf={"spark.sql.session.timeZone": "America/New_York"}),
            )
        return run_locally(job, parallelism, endpoint=connect_server)["t"].rows

    return read


@pytest.mark.sample
@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_rows_of_a_partitioned_table_are_the_librarys(table: Path, read: Read, parallelism: int) -> None:
    write_deltalake(table, rows(40), partition_by=PARTITIONS)
    found = read(parallelism)
    assert found.column_names == COLUMNS.names
    assert describe_difference(found, pa.table(Library(table).scan()).select(COLUMNS.names)) is None
    assert describe_difference(found, rows(40)) is None


def test_columns_that_came_later_are_null_in_the_rows_before(table: Path, read: Read) -> None:
    first = pa.table({"id": [1, 2], "who": pa.array([{"name": "a"}, None])})
    write_deltalake(table, first)
    second = pa.table({"id": [3], "who": pa.array([{"name": "b", "age": 4}]), "day": [date(2026, 1, 1)]})
    write_deltalake(table, second, mode="append", schema_mode="merge")
    nothing = pa.table({"id": pa.array([None], pa.int64())})
    write_deltalake(table, nothing, mode="append", schema_mode="merge")
    expected = pa.table(Library(table).scan())
    assert describe_difference(read(2), expected) is None
    assert read(2, lambda t: t.where("who.age IS NULL AND day IS NULL").select("id"))["id"].null_count == 1
    assert describe_difference(read(3, version=0), first) is None


@pytest.mark.sample
@pytest.mark.parametrize("mode", ["name", "id"])
def test_columns_that_were_renamed_are_found_and_their_names_taken_up_again(table: Path, read: Read, mode: str) -> None:
    held = pa.table({"id": [1, 2], "amt": [1.5, 2.5], "p": ["x", None], "who": [{"name": "ann"}, {"name": None}]})
    mapped = {"delta.columnMapping.mode": mode}
    write_deltalake(table, held, configuration=mapped, partition_by=["p"])

    def rename(action: dict[str, Any]) -> None:
        schema = json.loads(action["metaData"]["schemaString"])
        columns = {field["name"]: field for field in schema["fields"]}
        columns["amt"]["name"], columns["p"]["name"] = "amount", "part"
        columns["who"]["name"] = "person"
        columns["who"]["type"]["fields"][0]["name"] = "called"
        again = {"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "col-amt"}
        schema["fields"].append({"name": "amt", "type": "string", "nullable": True, "metadata": again})
        action["metaData"]["schemaString"] = json.dumps(schema)
        action["metaData"]["partitionColumns"] = ["part"]

    log = (table / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    (metadata,) = [entry for line in log if "metaData" in (entry := json.loads(line))]
    rename(metadata)
    append_log(table, metadata)
    expected = pa.table(Library(table).scan())
    assert expected.column_names == ["id", "amount", "part", "person", "amt"]
    assert describe_difference(read(3), expected) is None
    assert read(1, where="amount > 2 AND part IS NULL")["id"].to_pylist() == [2]
    assert read(1, where="amt = 'x' OR person.called = 'ann'")["id"].to_pylist() == [1]
    assert read(1, lambda t: t.where("amt IS NULL AND amount < 2").select("person.called")).to_pylist() == [
        {"called": "ann"}
    ]


CONDITIONS = [
    "region = 'north'",
    "region <> 'north' AND small >= 0",
    "region IN ('north', 'nowhere') OR region IS NULL",
    "day > '1969-12-20' AND day <= '1970-01-02'",
    "\"at\" >= '1990-01-01T00:00:00+00:00' AND id < 30",
    "\"local\" < '1980-01-01T00:00:00'",
    "NOT (flag = true)",
    "cents > 3.50 AND cents < 10.00",
    "price > 2.25 AND amt < 6",
    "who.age >= 20 AND who.name LIKE 'n2%'",
    "ratio > 0.05 AND id IS NOT NULL",
    "id IN (3, 4, 100)",
]


def test_a_condition_means_the_same_to_files_and_rows(table: Path, read: Read) -> None:
    for start in range(0, 40, 10):
        write_deltalake(table, rows(40).slice(start, 10), mode="append", partition_by=PARTITIONS)
    whole = rows(40)
    pruned = 0
    for where in CONDITIONS:
        pinned = DeltaTable(str(table), where=where).pin(TableAccess(lambda conn_id: {}, Path)).pinned
        pruned += pinned.files < pinned.all_files
        sql = where.replace("'1990-01-01T00:00:00+00:00'", "TIMESTAMPTZ '1990-01-01T00:00:00+00:00'")
        expected = duckdb.sql(f"SELECT * FROM whole WHERE {sql}").to_arrow_table()
        assert 0 < expected.num_rows < whole.num_rows
        found = read(2, where=where)
        assert describe_difference(found, expected.cast(found.schema)) is None, where
    assert pruned == len(CONDITIONS)


def test_a_thousand_files_in_as_many_partitions_are_read_at_once(table: Path, read: Read) -> None:
    held = pa.table({"id": range(1000), "region": [f"r {number}" for number in range(1000)]})
    write_deltalake(table, held, partition_by=["region"])
    assert len(Library(table).file_uris()) == 1000
    for parallelism in (1, 8):
        assert describe_difference(read(parallelism), held) is None
    assert read(2, lambda t: t.where("region = 'r 7'")).to_pylist() == [{"id": 7, "region": "r 7"}]


def test_a_table_without_rows_gives_its_columns(table: Path, read: Read) -> None:
    write_deltalake(table, rows(0), partition_by=["region"])
    found = read(2)
    assert (found.num_rows, found.column_names) == (0, COLUMNS.names)
