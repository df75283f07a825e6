"""A source is read where another vertex has found values: DuckDB's rows, from no more files than are needed."""

from __future__ import annotations

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, Files, IcebergTable
from airflow_abs.core.errors import JobGraphError
from airflow_abs.testing import run_locally
from airflow_abs.testing.rows import describe_difference

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

FIRST, DAYS = date(2026, 1, 1), 40
KINDS = ("files", "iceberg", "delta")


def sales() -> pa.Table:
    """A few rows a day, and some that were sold on no day."""
    days = [None if number % 23 == 0 else FIRST + timedelta(days=number * 7 % DAYS) for number in range(600)]
    return pa.table(
        {
            "id": pa.array(range(600), pa.int64()),
            "amount": pa.array([Decimal(number) / 4 for number in range(600)], pa.decimal128(9, 2)),
            "sold_date": pa.array(days, pa.date32()),
        }
    )


def dates() -> pa.Table:
    """Of each month every third day is a holiday; one holiday nobody knows the date of."""
    known = [FIRST + timedelta(days=number) for number in range(2 * DAYS)]
    return pa.table(
        {
            "d": pa.array([*known, None], pa.date32()),
            "holiday": [*(day.day % 3 == 0 for day in known), True],
            "month": [*(day.month for day in known), 1],
        }
    )


def write_sales(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The table in one file a day, and how a DAG declares it."""
    table, place = sales(), str(folder / "sales")
    if kind == "files":
        pq.write_to_dataset(table, place, partition_cols=["sold_date"])
        return lambda **arguments: Files(place, **arguments)
    if kind == "delta":
        write_deltalake(place, table, partition_by=["sold_date"])
        return lambda **arguments: DeltaTable(place, **arguments)
    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "iceberg", "extra": properties}))
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    created = catalog.create_table("db.sales", table.schema)
    with created.update_spec() as update:
        update.add_identity("sold_date")
    created.append(table.cast(created.schema().as_arrow()))
    catalog.close()
    return lambda **arguments: IcebergTable("lake.db.sales", **arguments)


def declare(source: Any, folder: Path, sql: str, **arguments: Any) -> AdaptiveSparkJob:
    """`dates` are chosen by a query, and `sales` are read on those alone."""
    pq.write_table(dates(), folder / "dates.parquet")
    with DAG("pruned"), AdaptiveSparkJob("job", **arguments) as job:
        chosen = AdaptiveSparkOperator(task_id="dates", source=Files(str(folder / "dates.parquet")), sql=sql)
        AdaptiveSparkOperator(task_id="sales", source=source(prune={"sold_date": chosen.column("d")}))
    return job


HOLIDAYS = "SELECT d, month FROM {source} WHERE holiday AND month = 1"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_days_at_any_fan_out(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    job = declare(write_sales(kind, tmp_path, monkeypatch), tmp_path, HOLIDAYS)
    source, sales_, dates_ = "dates_", sales(), dates()
    days = HOLIDAYS.format(source=source)
    expected = duckdb.sql(f"SELECT * FROM sales_ WHERE sold_date IN (SELECT d FROM ({days}))").to_arrow_table()
    assert (len(sales_), len(dates_), len(expected)) == (600, 81, 141)
    for parallelism in (1, 3, 8):
        run = run_locally(job, parallelism, endpoint=connect_server)["sales"]
        assert describe_difference(run.rows.select(expected.column_names), expected) is None
        # Days 3, 6, ... 30 of January, of 40 days and of those that are NULL; a NULL among the dates brings no rows.
        assert [entry.parts for entry in run.decision.inputs if entry.kind == "source"] == [10]
    reason = run_locally(job, None, endpoint=connect_server)["sales"].decision.reason
    assert "; sales.source: 10 of 41 files, " in reason
    assert " left by dates.d -> 1 subtask" in reason


@pytest.mark.parametrize("kind", KINDS)
def test_no_value_is_no_row_and_no_file(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    job = declare(write_sales(kind, tmp_path, monkeypatch), tmp_path, "SELECT * FROM {source} WHERE month = 12")
    run = run_locally(job, 3, endpoint=connect_server)["sales"]
    assert (run.rows.num_rows, sorted(run.rows.column_names)) == (0, ["amount", "id", "sold_date"])
    assert [entry.parts for entry in run.decision.inputs if entry.kind == "source"] == [0]


def test_rows_are_the_same_in_a_layout_of_which_nothing_is_known(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    pq.write_table(sales(), tmp_path / "all.parquet")
    job = declare(lambda **arguments: Files(str(tmp_path / "all.parquet"), **arguments), tmp_path, HOLIDAYS)
    run = run_locally(job, 2, endpoint=connect_server)["sales"]
    assert run.rows.num_rows == 141
    assert [entry.parts for entry in run.decision.inputs if entry.kind == "source"] == [1]


@pytest.mark.sample
def test_a_small_day_keeps_the_values_on_their_own(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `durability="auto"` everything else of a small day is one operation."""
    source = write_sales("files", tmp_path, monkeypatch)
    pq.write_table(dates(), tmp_path / "dates.parquet")
    with DAG("pruned"), AdaptiveSparkJob("job", durability="auto") as job:
        known = AdaptiveSparkOperator(task_id="known", source=Files(str(tmp_path / "dates.parquet")))
        chosen = AdaptiveSparkOperator(
            task_id="chosen", inputs={"known": known.rescale()}, sql="SELECT * FROM {known} WHERE holiday"
        )
        sold = AdaptiveSparkOperator(
            task_id="sold",
            source=source(prune={"sold_date": chosen.column("d")}),
            inputs={"days": known.broadcast()},
            sql="SELECT s.id, k.month FROM {source} s JOIN {days} k ON s.sold_date = k.d",
        )
        AdaptiveSparkOperator(
            task_id="total",
            inputs={"sold": sold.hash("month")},
            sql="SELECT month, count(*) n FROM {sold} GROUP BY month",
        )
    run = run_locally(job, None, endpoint=connect_server)
    sales_, dates_ = sales(), dates()
    expected = duckdb.sql(
        "SELECT month::INT8 AS month, count(*) n FROM sales_ JOIN dates_ ON sold_date = d WHERE holiday GROUP BY month"
    ).to_arrow_table()
    assert len(sales_) + len(dates_) == 681
    assert describe_difference(run["total"].rows, expected) is None
    assert "; sold.source: 13 of 40 files, " in run["total"].decision.reason  # the one of NULL is left out by `plan`


@pytest.mark.sample
@pytest.mark.parametrize(
    ("column", "sql", "message"),
    [
        ("sold", "SELECT d FROM {source}", "prune= names column 'sold' of its source, which has id, amount, sold_date"),
        ("sold_date", "SELECT d AS e FROM {source}", "prune= names column 'd' of vertex 'dates', which has e; name"),
        (
            "sold_date",
            "SELECT string(d) AS d FROM {source}",
            r"prune= compares 'sold_date' of its source \(date\) with dates.d \(string\); expected integers, or",
        ),
    ],
)
def test_columns_that_cannot_be_compared_are_refused(
    connect_server: ConnectEndpoint, tmp_path: Path, column: str, sql: str, message: str
) -> None:
    pq.write_table(sales(), tmp_path / "all.parquet")
    pq.write_table(dates(), tmp_path / "dates.parquet")
    with DAG("pruned"), AdaptiveSparkJob("job") as job:
        chosen = AdaptiveSparkOperator(task_id="dates", source=Files(str(tmp_path / "dates.parquet")), sql=sql)
        AdaptiveSparkOperator(
            task_id="sales", source=Files(str(tmp_path / "all.parquet"), prune={column: chosen.column("d")})
        )
    with pytest.raises(JobGraphError, match=message):
        run_locally(job, 1, endpoint=connect_server)
