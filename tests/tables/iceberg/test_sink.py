"""A job whose sink is an Iceberg table, on a real Spark server: what it wrote is what any reader of the table reads."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DoubleType, FixedType, ListType, LongType, NestedField, StringType
from pyiceberg.utils.datetime import date_to_days, datetime_to_micros
from pyspark.sql.functions import expr

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, IcebergTable, VertexOptions
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.catalogs import table_access
from airflow_abs.tables.declared import find_targets
from airflow_abs.tables.errors import TableError
from airflow_abs.testing.job_run import JobRun
from airflow_abs.testing.rows import describe_difference

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

COLUMNS = pa.schema(
    [
        ("id", pa.int64()),
        ("amount", pa.float64()),
        ("price", pa.decimal128(18, 2)),
        ("region", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("utc", pa.timestamp("us", tz="UTC")),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)
REGIONS = ["north", "", None, "a/b=c%", "ünï", "__HIVE", "x" * 60]


def row(number: int) -> dict[str, Any]:
    times = [None, datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2026, 3, number % 28 + 1, number % 24)]  # noqa: DTZ001
    at = times[number % 3]
    return {
        "id": number - 50,
        "amount": None if number % 4 == 0 else number / 8,
        "price": Decimal(number) / 4,
        "region": REGIONS[number % len(REGIONS)],
        "day": None if number % 6 == 0 else date(1969 + number % 3, 1 + number % 12, 1 + number % 28),
        "at": at,
        "utc": at.replace(tzinfo=UTC) if at else None,
        "who": None if number % 3 == 0 else {"name": f"n{number}", "age": number},
        "tags": [] if number % 2 else ["a", None, str(number)],
        "more": [(str(number), number)],
    }


ROWS = pa.Table.from_pylist([row(number) for number in range(200)], schema=COLUMNS)


@pytest.fixture
def source(tmp_path: Path) -> str:
    folder = tmp_path / "source"
    folder.mkdir()
    for number in range(10):
        pq.write_table(ROWS.slice(number * 20, 20), folder / f"part-{number}.parquet")
    return str(folder)


Publish = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def publish(
    connect_server: ConnectEndpoint,
    properties: dict[str, str],
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Publish:
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))

    def publish(transform: Any = None, run: str = "monday", parallelism: int = 3, **sink: Any) -> list[dict[str, Any]]:
        with DAG("tables") as dag, AdaptiveSparkJob("job", exchange=str(tmp_path / "exchange")):
            AdaptiveSparkOperator(
                task_id="t",
                source=Files(source),
                transform=transform,
                sink=IcebergTable("lake.db.t", **sink),
                options=VertexOptions(spark_conf={"spark.sql.session.timeZone": "America/New_York"}),
            )
        plan = dag.get_task("job.plan")
        folder = JobFolder(tmp_path / "exchange", "tables", run, "job")
        programs = plan._programs(folder, table_access())
        planned = JobRun.planned(connect_server, folder, plan.graph, programs, plan.options)
        shutil.rmtree(tmp_path / "exchange" / "tables" / f"{run}-{parallelism}", ignore_errors=True)  # a cleared run
        spread = planned.at_parallelism(f"{run}-{parallelism}", parallelism)
        assert asyncio.run(spread.run_regions()) == {}
        (region,) = spread.plan.regions
        return list(spread.publish(region.name).values())

    return publish


def in_duckdb(table: Any) -> pa.Table:
    """DuckDB reads the files as they are, without any metadata of the table."""
    paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    return duckdb.sql(f"SET TimeZone = 'UTC'; FROM read_parquet({paths})").to_arrow_table()


PARTITIONS: dict[str, list[tuple[str, Any]]] = {
    "none": [],
    "identity": [("region", IdentityTransform()), ("id", TruncateTransform(7))],
    "dates": [("day", MonthTransform()), ("utc", DayTransform()), ("region", TruncateTransform(2))],
    "times": [("at", HourTransform()), ("day", YearTransform()), ("price", IdentityTransform())],
    "more times": [("utc", HourTransform()), ("at", YearTransform()), ("day", IdentityTransform())],
}


def create(catalog: Any, partitions: str = "none") -> Any:
    table = catalog.create_table("db.t", COLUMNS)
    with table.update_spec() as update:
        for number, (column, transform) in enumerate(PARTITIONS[partitions]):
            update.add_field(column, transform, f"p{number}")
    return table


@pytest.mark.parametrize(
    ("partitions", "parallelism"),
    [("none", 1), ("none", 8), ("identity", 3), ("dates", 3), ("times", 2), ("more times", 2)],
)
def test_rows_of_every_type_and_partition_are_those_that_were_written(
    catalog: Any, publish: Publish, partitions: str, parallelism: int
) -> None:
    table = create(catalog, partitions)
    (done,) = publish(parallelism=parallelism, files=1, sort_by=["id"])
    table.refresh()
    assert (done["rows"], done["changed"], done["snapshot"]) == (200, True, table.current_snapshot().snapshot_id)
    assert describe_difference(table.scan().to_arrow(), ROWS) is None
    assert describe_difference(in_duckdb(table).cast(ROWS.schema), ROWS) is None
    spec = table.spec()
    for task in table.scan().plan_files():
        held = pq.read_table(task.file.file_path.removeprefix("file://"))
        for field, value in zip(spec.fields, task.file.partition, strict=True):
            column = table.schema().find_field(field.source_id)
            apply = field.transform.transform(column.field_type)
            assert {apply(_internal(each)) for each in held[column.name].to_pylist()} == {value}


def _internal(value: Any) -> Any:
    """As Iceberg's transforms take it."""
    if isinstance(value, datetime):
        return datetime_to_micros(value)
    return date_to_days(value) if isinstance(value, date) else value


def test_a_table_with_a_history_takes_rows_under_its_ids_of_today(catalog: Any, publish: Publish) -> None:
    table = catalog.create_table("db.t", pa.schema([("id", pa.int32()), ("amt", pa.float32()), ("day", pa.date32())]))
    table.append(
        pa.Table.from_pylist([{"id": 1, "amt": 0.5, "day": date(2026, 1, 1)}], schema=table.schema().as_arrow())
    )
    with table.update_schema() as update:
        update.rename_column("amt", "amount").delete_column("day")
    with table.update_schema() as update:
        update.update_column("id", LongType()).update_column("amount", DoubleType())
        update.add_column("amt", StringType())
    publish(lambda t: t.selectExpr("region AS amt", "CAST(amount AS FLOAT) AS amount", "CAST(id AS INT) AS id"))
    table.refresh()
    wanted = [{"id": row["id"], "amount": row["amount"], "amt": row["region"]} for row in ROWS.to_pylist()]
    expected = pa.Table.from_pylist([{"id": 1, "amount": 0.5, "amt": None}, *wanted], schema=table.schema().as_arrow())
    assert describe_difference(table.scan().to_arrow(), expected) is None


def test_only_the_partitions_of_a_run_are_overwritten(catalog: Any, publish: Publish) -> None:
    table = create(catalog, "identity")
    publish()
    (done,) = publish(
        lambda t: t.where("region IS NULL").withColumn("id", expr("id % 7")), run="tuesday", mode="overwrite_partitions"
    )
    table.refresh()
    assert done["replaced"] == ("local:tables/monday-3/job",)
    kept = duckdb.sql(
        "SELECT id FROM ROWS WHERE NOT (region IS NULL AND id - (((id % 7) + 7) % 7) IN "
        "(SELECT (id % 7) - ((((id % 7) % 7) + 7) % 7) FROM ROWS WHERE region IS NULL)) "
        "UNION ALL SELECT id % 7 FROM ROWS WHERE region IS NULL"
    ).fetchall()
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == sorted(number for (number,) in kept)


@pytest.mark.sample
def test_a_cleared_run_is_published_again_in_place_of_itself(catalog: Any, publish: Publish) -> None:
    table = create(catalog)
    first = publish()
    again = publish(lambda t: t.where("id > 0"))
    table.refresh()
    assert [done["changed"] for done in (*first, *again)] == [True, True]
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == list(range(1, 150))


REFUSED: list[tuple[str, Any, dict[str, Any]]] = [
    (
        "its output lacks tags and also has x, compared with table lake.db.t, whose columns are id",
        lambda t: t.withColumnRenamed("tags", "x"),
        {},
    ),
    (
        "column 'id' of its output is string, and bigint in table lake.db.t, which cannot hold",
        lambda t: t.withColumn("id", t["id"].cast("string")),
        {},
    ),
    (
        "column 'price' of its output is decimal(18,3), and decimal(18,2) in table",
        lambda t: t.withColumn("price", t["price"].cast("decimal(18,3)")),
        {},
    ),
    (
        "column 'who' of its output is struct<name:string,years:int>",
        lambda t: t.withColumn("who", expr("named_struct('name', who.name, 'years', who.age)")),
        {},
    ),
    ("sort_by of its sink names 'nope'", None, {"sort_by": ["nope"]}),
    ("mode='overwrite_partitions' replaces partitions, and it has none", None, {"mode": "overwrite_partitions"}),
    ("where= and snapshot= choose what a source reads", None, {"where": "id = 1"}),
]


@pytest.mark.sample
@pytest.mark.parametrize(("message", "transform", "sink"), REFUSED, ids=[each[0][:30] for each in REFUSED])
def test_what_does_not_fit_is_refused_in_plan(
    catalog: Any, publish: Publish, message: str, transform: Any, sink: dict[str, Any]
) -> None:
    create(catalog)
    with pytest.raises((JobGraphError, TableError), match=re.escape(message)):
        publish(transform, **sink)


def test_partitions_that_spark_cannot_compute_are_refused_in_plan(catalog: Any, publish: Publish) -> None:
    with catalog.create_table("db.t", COLUMNS).update_spec() as update:
        update.add_field("id", BucketTransform(8), "b")
    with pytest.raises(TableError, match=re.escape("is partitioned by bucket[8] of 'id' (long), which Spark cannot")):
        publish()


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (NestedField(1, "id", FixedType(4)), "column 'id' is of type fixed[4], which Spark does not write"),
        (
            NestedField(1, "s", ListType(2, FixedType(4))),
            "column 'element' is of type fixed[4], which Spark does not write",
        ),
    ],
)
def test_columns_that_cannot_be_seen_to_are_refused_in_plan(
    catalog: Any, publish: Publish, field: NestedField, message: str
) -> None:
    catalog.create_table("db.t", Schema(field))
    with pytest.raises(TableError, match=re.escape(message)):
        publish()


def test_one_table_is_the_sink_of_one_vertex(catalog: Any, publish: Publish) -> None:
    table = create(catalog)
    twice = {"a": IcebergTable("lake.db.t"), "b": IcebergTable("lake.db.t")}
    with pytest.raises(JobGraphError, match=r"the sinks of vertices 'a' and 'b' are one table \(lake\.db\.t\)"):
        find_targets(twice, table_access())
    assert table.current_snapshot() is None
