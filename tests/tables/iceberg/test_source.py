"""An Iceberg table as the source of a vertex: its rows are the library's own, whatever its history."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, IcebergTable
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.catalogs import table_access
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.spark_settings import READ_SETTINGS
from airflow_abs.testing import run_locally
from airflow_abs.testing.rows import describe_difference

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

FIRST = pa.schema(
    [
        ("id", pa.int32()),
        ("amt", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("day", pa.date32()),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.struct([("key", pa.string())]))),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)


def evolved(catalog: Any) -> Any:
    """A table that was renamed in, added to, dropped from and widened, and that took up a name again."""
    table = catalog.create_table("db.t", FIRST)
    table.append(
        pa.Table.from_pylist(
            [
                {"id": 1, "amt": 1.5, "price": Decimal("1.25"), "day": date(2026, 1, 1), "more": [("a", 1)]},
                {"id": 2, "who": {"name": "ann", "age": 30}, "tags": [{"key": "x"}, {"key": None}]},
                {"id": None, "amt": None, "who": {"name": None, "age": None}, "tags": []},
            ],
            schema=table.schema().as_arrow(),
        )
    )
    with table.update_schema() as update:
        update.rename_column("amt", "amount").rename_column("who.name", "called").rename_column("who", "person")
        update.delete_column("day")
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("amount", DoubleType())
        update.update_column("price", DecimalType(18, 2))
    with table.update_schema() as update:
        update.add_column("amt", StringType())
        update.add_column("day", StringType())
        update.add_column(("person", "name"), LongType())
    table.append(
        pa.Table.from_pylist(
            [{"id": 2**40, "amount": 0.1, "amt": "new", "day": "today", "person": {"called": "bob", "name": 7}}],
            schema=table.schema().as_arrow(),
        )
    )
    return table


@pytest.fixture
def read(
    connect_server: ConnectEndpoint, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., pa.Table]:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))

    def read(parallelism: int, transform: Any = None, **arguments: Any) -> pa.Table:
        with DAG("tables"), AdaptiveSparkJob("job") as job:
            AdaptiveSparkOperator(task_id="t", source=IcebergTable("lake.db.t", **arguments), transform=transform)
        return run_locally(job, parallelism, endpoint=connect_server)["t"].rows

    return read


@pytest.mark.sample
@pytest.mark.parametrize("parallelism", [1, 3, 8])
def test_rows_of_a_table_with_a_history_are_the_librarys(
    catalog: Any, read: Callable[..., pa.Table], parallelism: int
) -> None:
    table = evolved(catalog)
    assert describe_difference(read(parallelism), table.scan().to_arrow()) is None


def test_filters_and_fields_of_a_transform_find_the_right_columns(catalog: Any, read: Callable[..., pa.Table]) -> None:
    evolved(catalog)
    found = read(2, lambda t: t.where("amt IS NULL AND amount > 1").select("amount", "person.called", "amt"))
    assert found.to_pylist() == [{"amount": 1.5, "called": None, "amt": None}]


def test_an_earlier_snapshot_is_read_although_others_came(catalog: Any, read: Callable[..., pa.Table]) -> None:
    table = evolved(catalog)
    first = table.snapshots()[0].snapshot_id
    expected = table.scan(snapshot_id=first).to_arrow()
    assert describe_difference(read(3, snapshot=str(first)), expected) is None


@pytest.mark.sample
def test_a_condition_leaves_out_files_and_rows(catalog: Any, read: Callable[..., pa.Table]) -> None:
    table = catalog.create_table("db.t", FIRST)
    with table.update_spec() as update:
        update.add_identity("day")
    days = [date(2026, 1, 1), date(2026, 1, 2), None]
    rows = [{"id": number, "day": days[number % 3]} for number in range(30)]
    table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
    where = "day >= '2026-01-02' AND id < 10"
    assert sorted(read(2, where=where)["id"].to_pylist()) == [1, 4, 7]
    assert describe_difference(read(2), table.scan().to_arrow()) is None


def test_a_table_without_rows_gives_its_columns(catalog: Any, read: Callable[..., pa.Table]) -> None:
    catalog.create_table("db.t", FIRST)
    found = read(2)
    assert (found.num_rows, found.column_names) == (0, FIRST.names)


def test_a_snapshot_that_is_not_there_fails_in_plan(catalog: Any, read: Callable[..., pa.Table]) -> None:
    catalog.create_table("db.t", FIRST)
    with pytest.raises(TableError, match=r"table lake\.db\.t: has no snapshot 5"):
        read(1, snapshot=5)
    with pytest.raises(TableError, match="snapshot is 'yesterday'; expected the id of a snapshot"):
        read(1, snapshot="yesterday")


def test_a_condition_means_the_tables_columns_after_renames(catalog: Any, read: Callable[..., pa.Table]) -> None:
    evolved(catalog)
    assert read(2, where="amt = 'new'")["id"].to_pylist() == [2**40]
    assert read(2, where='"amount" > 1')["id"].to_pylist() == [1]
    assert read(2, where="person.called = 'bob' OR id = 2")["id"].to_pylist() in ([2, 2**40], [2**40, 2])


def test_files_without_field_ids_fail_whatever_the_server_says(catalog: Any, read: Callable[..., pa.Table]) -> None:
    table = catalog.create_table("db.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1, 2]}))
    (task,) = table.scan().plan_files()
    pq.write_table(pa.table({"id": [1, 2]}), task.file.file_path.removeprefix("file://"))
    assert READ_SETTINGS["spark.sql.parquet.fieldId.read.ignoreMissing"] == "false"
    with pytest.raises(SparkOperationError, match="FAILED_READ_FILE"):
        read(1)


@pytest.mark.parametrize("folder", ["db/t", "db"])
def test_a_sink_never_replaces_the_folder_of_the_table(
    catalog: Any, properties: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    evolved(catalog)
    warehouse = tmp_path / "warehouse"
    assert (warehouse / "db" / "t").is_dir()
    with DAG("daily") as dag, AdaptiveSparkJob("job", exchange=str(tmp_path / "exchange")):
        AdaptiveSparkOperator(
            task_id="copy",
            source=IcebergTable("lake.db.t"),
            sink=Files(str(warehouse / folder), replace_foreign=True),
        )
    with pytest.raises(JobGraphError, match=r"'copy' .* is, contains or lies inside what vertex 'copy' .*lake\.db\.t"):
        dag.get_task("job.plan")._programs(JobFolder(tmp_path / "exchange", "daily", "monday", "job"), table_access())
