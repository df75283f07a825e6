"""A job whose sink is a Delta table, on a real Spark server: what it wrote is what any reader of the table reads."""

from __future__ import annotations

import asyncio
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
from deltalake import DeltaTable as Library
from deltalake import write_deltalake
from pyspark.sql.functions import expr

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, Files, VertexOptions
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.catalogs import table_access
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
        ("flag", pa.bool_()),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("tags", pa.list_(pa.string())),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)
REGIONS = ["north", None, "a/b=c% +", "ünï", "__HIVE", "x" * 60]


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
        "flag": [True, False, None][number % 3],
        "who": None if number % 3 == 0 else {"name": f"n{number}", "age": number},
        "tags": [] if number % 2 else ["a", None, str(number)],
        "more": [(str(number), number)],
    }


ROWS = pa.Table.from_pylist([row(number) for number in range(120)], schema=COLUMNS)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "t"


Publish = Callable[..., dict[str, Any]]


@pytest.fixture
def publish(connect_server: ConnectEndpoint, table: Path, tmp_path: Path) -> Publish:
    source = tmp_path / "source"
    source.mkdir()
    for number in range(10):
        pq.write_table(ROWS.slice(number * 12, 12), source / f"part-{number}.parquet")

    def publish(
        transform: Any = None, run: str = "monday", parallelism: int = 3, ansi: bool = True, **sink: Any
    ) -> dict[str, Any]:
        with DAG("tables") as dag, AdaptiveSparkJob("job", exchange=str(tmp_path / "exchange")):
            AdaptiveSparkOperator(
                task_id="t",
                source=Files(str(source)),
                transform=transform,
                sink=DeltaTable(str(table), **sink),
                options=VertexOptions(
                    spark_conf={
                        "spark.sql.session.timeZone": "America/New_York",
                        "spark.sql.ansi.enabled": str(ansi).lower(),
                    }
                ),
            )
        plan = dag.get_task("job.plan")
        folder = JobFolder(tmp_path / "exchange", "tables", run, "job")
        programs = plan._programs(folder, table_access())
        planned = JobRun.planned(connect_server, folder, plan.graph, programs, plan.options)
        shutil.rmtree(tmp_path / "exchange" / "tables" / f"{run}-{parallelism}", ignore_errors=True)  # a cleared run
        spread = planned.at_parallelism(f"{run}-{parallelism}", parallelism)
        assert asyncio.run(spread.run_regions()) == {}
        (region,) = spread.plan.regions
        (done,) = spread.publish(region.name).values()
        return done

    return publish


def held(table: Path) -> pa.Table:
    """By the library's engine, whose columns of partitions come last."""
    return pa.table(Library(table).scan()).select(COLUMNS.names)


PARTITIONS = {
    "none": [],
    "texts and dates": ["region", "day"],
    "times": ["at", "utc"],
    "others": ["id", "price", "flag"],
}


@pytest.mark.parametrize(
    ("partitions", "parallelism"), [("none", 1), ("none", 8), ("texts and dates", 3), ("times", 2), ("others", 2)]
)
def test_rows_of_every_type_and_partition_are_those_that_were_written(
    table: Path, publish: Publish, partitions: str, parallelism: int
) -> None:
    write_deltalake(table, ROWS.slice(0, 0), partition_by=PARTITIONS[partitions])
    done = publish(parallelism=parallelism, files=1, sort_by=["id"])
    assert (done["rows"], done["changed"], done["version"]) == (120, True, 1)
    assert describe_difference(held(table), ROWS) is None
    assert describe_difference(Library(table).to_pyarrow_table().select(COLUMNS.names), ROWS) is None
    stored = [name for name in COLUMNS.names if name not in PARTITIONS[partitions]]
    by_duckdb = duckdb.sql(f"SET TimeZone = 'UTC'; FROM read_parquet({Library(table).file_uris()})").to_arrow_table()
    assert describe_difference(by_duckdb.cast(ROWS.select(stored).schema), ROWS.select(stored)) is None


def test_statistics_hold_for_every_value_of_a_file(table: Path, publish: Publish) -> None:
    write_deltalake(table, ROWS.slice(0, 0), partition_by=["region"])
    publish()
    library = Library(table)
    adds = pa.table(library.get_add_actions(flatten=True)).to_pylist()
    for add, uri in zip(adds, library.file_uris(), strict=True):
        inside = pq.read_table(uri)
        assert (add["num_records"], add["size_bytes"]) == (inside.num_rows, Path(uri).stat().st_size)
        for name in ("id", "amount", "day", "utc", "at"):
            values = [value for value in inside[name].to_pylist() if value is not None]
            assert add[f"null_count.{name}"] == inside.num_rows - len(values)
            assert all(add[f"min.{name}"] <= value <= add[f"max.{name}"] for value in values)
    for where in ("id > 60", "amount < 2", "day >= DATE '1971-01-01'", "price = 7.25"):
        expected = duckdb.sql(f"SELECT id FROM ROWS WHERE {where}").to_arrow_table()["id"].to_pylist()
        found = pa.table(library.scan(columns=["id"], predicate=where))["id"].to_pylist()
        assert sorted(found) == sorted(expected)


@pytest.mark.sample
def test_only_the_partitions_of_a_run_are_overwritten(table: Path, publish: Publish) -> None:
    write_deltalake(table, ROWS.slice(0, 0), partition_by=["region"])
    publish()
    done = publish(
        lambda t: t.where("region IS NULL").withColumn("id", expr("id + 1000")),
        run="tuesday",
        mode="overwrite_partitions",
    )
    assert done["replaced"] == ("local:tables/monday-3/job",)
    expected = duckdb.sql("SELECT id + CASE WHEN region IS NULL THEN 1000 ELSE 0 END FROM ROWS").fetchall()
    assert sorted(held(table)["id"].to_pylist()) == sorted(number for (number,) in expected)


def test_partitions_of_small_decimals_are_overwritten_with_and_without_ansi_mode(table: Path, publish: Publish) -> None:
    small = pa.array([Decimal(number).scaleb(-8) for number in range(120)], pa.decimal128(18, 8))
    rows = ROWS.select(["id"]).append_column("price", small)
    write_deltalake(table, rows, partition_by=["price"])

    def small_prices(t: Any) -> Any:
        return t.selectExpr("id", "CAST(CAST(id + 50 AS DECIMAL(10, 0)) / 100000000 AS DECIMAL(18, 8)) AS price")

    for ansi in (False, True):
        done = publish(small_prices, run=f"ansi-{ansi}", mode="overwrite_partitions", ansi=ansi)
        assert done["rows"] == 120
        assert describe_difference(Library(table).to_pyarrow_table().select(["id", "price"]), rows) is None


def test_a_cleared_run_is_published_again_in_place_of_itself(table: Path, publish: Publish) -> None:
    write_deltalake(table, ROWS.slice(0, 0))
    assert publish()["changed"] is publish(lambda t: t.where("id > 0"))["changed"] is True
    assert sorted(held(table)["id"].to_pylist()) == list(range(1, 70))


REFUSED: list[tuple[str, Any, dict[str, Any]]] = [
    ("its output lacks tags and also has x, compared with table", lambda t: t.withColumnRenamed("tags", "x"), {}),
    ("column 'id' of its output is string, and bigint", lambda t: t.withColumn("id", t["id"].cast("string")), {}),
    ("sort_by of its sink names 'nope'", None, {"sort_by": ["nope"]}),
    ("mode='overwrite_partitions' replaces partitions, and it has none", None, {"mode": "overwrite_partitions"}),
    ("where= and version= choose what a source reads", None, {"where": "id = 1"}),
]


@pytest.mark.sample
@pytest.mark.parametrize(("message", "transform", "sink"), REFUSED, ids=[each[0][:30] for each in REFUSED])
def test_what_does_not_fit_is_refused_in_plan(
    table: Path, publish: Publish, message: str, transform: Any, sink: dict[str, Any]
) -> None:
    write_deltalake(table, ROWS.slice(0, 0))
    with pytest.raises((JobGraphError, TableError), match=re.escape(message)):
        publish(transform, **sink)


def test_partitions_that_have_no_text_are_refused_in_plan(table: Path, publish: Publish) -> None:
    write_deltalake(table, ROWS.slice(0, 0), partition_by=["amount"])
    with pytest.raises(TableError, match="is partitioned by 'amount', which is double; expected a string"):
        publish()
