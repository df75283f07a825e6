"""Orders into a Delta table, and of that the totals into another; the second job needs no workers for its decisions.

The third one reads a table of Spark's catalog, of it the days that are in the Delta table, and writes to another.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, Files, JobOptions, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
SOLD, TOTALS = f"{MART}/delta/sold", f"{MART}/delta/totals"
STATEMENTS = (
    f"CREATE DATABASE IF NOT EXISTS shop LOCATION '{MART}/shop'",
    "CREATE TABLE IF NOT EXISTS shop.orders (order_id BIGINT, amount DECIMAL(12, 2), status STRING, ds DATE) "
    f"USING parquet PARTITIONED BY (ds) LOCATION '{LAKE}/orders'",
    "MSCK REPAIR TABLE shop.orders",
    "CREATE TABLE IF NOT EXISTS shop.by_status (status STRING, orders BIGINT, amount DECIMAL(38, 2), ds DATE) "
    "USING parquet PARTITIONED BY (ds)",
)


@task
def make_tables() -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    key = [("day", pa.date32()), ("status", pa.string())]
    sold = pa.schema([*key, ("order_id", pa.int64()), ("amount", pa.decimal128(12, 2))])
    totals = pa.schema([*key, ("orders", pa.int64()), ("amount", pa.decimal128(38, 2))])
    write_deltalake(SOLD, sold.empty_table(), partition_by=["day", "status"], mode="ignore")
    write_deltalake(TOTALS, totals.empty_table(), partition_by=["day"], mode="ignore")


def ask_spark(*statements: str) -> list[list[str]]:
    """What the last of them answers; the catalog is that of the server which the jobs use."""
    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
    from airflow_abs.spark.connect.session import open_session

    with open_session(AdaptiveSparkHook("spark_connect_default").get_endpoint()) as session:
        return [[list(map(str, row)) for row in session.sql(each).collect()] for each in statements][-1]


@task
def make_catalog_tables() -> None:
    ask_spark(*STATEMENTS)


@task
def read_back() -> list[list[str]]:
    return ask_spark("SELECT ds, status, orders, amount FROM shop.by_status")


def select(orders: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return orders.select(sf.lit(day).cast("date").alias("day"), "status", "order_id", "amount")


def total(sold: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return sold.groupBy("day", "status").agg(
        sf.count("order_id").alias("orders"), sf.sum("amount").cast("decimal(38,2)").alias("amount")
    )


def only_days(sold: DataFrame) -> DataFrame:
    return sold.select("day")


def by_status(shop_orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return shop_orders.groupBy("ds", "status").agg(
        sf.count("order_id").alias("orders"), sf.sum("amount").cast("decimal(38,2)").alias("amount")
    )


with DAG("tables", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("load") as load:
        orders = AdaptiveSparkOperator(
            task_id="orders",
            source=Files(f"{LAKE}/orders/ds={DAY}"),
            transform=select,
            transform_kwargs={"day": DAY},
            sink=DeltaTable(SOLD, mode="overwrite_partitions", files=1),
        )
    with AdaptiveSparkJob("sum", options=JobOptions(start_from_trigger=True)) as add_up:
        sold = AdaptiveSparkOperator(task_id="sold", source=DeltaTable(SOLD, where=f"day = '{DAY}' AND status <> 'P'"))
        AdaptiveSparkOperator(
            task_id="totals",
            inputs={"sold": sold},
            transform=total,
            sink=DeltaTable(TOTALS, mode="overwrite_partitions", files=1),
        )
    with AdaptiveSparkJob("catalog") as catalog:
        days = AdaptiveSparkOperator(
            task_id="days",
            source=DeltaTable(SOLD, where=f"day = '{DAY}'"),
            transform=only_days,
        )
        shop_orders = AdaptiveSparkOperator(
            task_id="shop_orders",
            source=Table("shop.orders", where="status <> 'P'", prune={"ds": days.column("day")}),
        )
        AdaptiveSparkOperator(
            task_id="by_status",
            inputs={"shop_orders": shop_orders},
            transform=by_status,
            sink=Table("shop.by_status", mode="overwrite_partitions"),
        )
    make_tables() >> load >> [add_up, catalog]
    make_catalog_tables() >> catalog >> read_back()
