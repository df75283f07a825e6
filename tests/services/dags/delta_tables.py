"""Orders into a Delta table, and of that the totals into another; the second job needs no workers for its decisions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, DeltaTable, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
DAY = "{{ macros.ds_add(data_interval_end | ds, -1) }}"
SOLD, TOTALS = f"{MART}/delta/sold", f"{MART}/delta/totals"


@task
def make_tables() -> None:
    import pyarrow as pa
    from deltalake import write_deltalake

    key = [("day", pa.date32()), ("status", pa.string())]
    sold = pa.schema([*key, ("order_id", pa.int64()), ("amount", pa.decimal128(12, 2))])
    totals = pa.schema([*key, ("orders", pa.int64()), ("amount", pa.decimal128(38, 2))])
    write_deltalake(SOLD, sold.empty_table(), partition_by=["day", "status"], mode="ignore")
    write_deltalake(TOTALS, totals.empty_table(), partition_by=["day"], mode="ignore")


def select(orders: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return orders.select(sf.lit(day).cast("date").alias("day"), "status", "order_id", "amount")


def total(sold: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return sold.groupBy("day", "status").agg(
        sf.count("order_id").alias("orders"), sf.sum("amount").cast("decimal(38,2)").alias("amount")
    )


with DAG("delta_tables", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("load") as load:
        orders = AdaptiveSparkOperator(
            task_id="orders",
            source=Files(f"{LAKE}/orders/ds={DAY}"),
            transform=select,
            transform_kwargs={"day": DAY},
            sink=DeltaTable(SOLD, mode="overwrite_partitions", files=1),
        )
    with AdaptiveSparkJob("sum", start_from_trigger=True) as add_up:
        sold = AdaptiveSparkOperator(task_id="sold", source=DeltaTable(SOLD, where=f"day = '{DAY}' AND status <> 'P'"))
        AdaptiveSparkOperator(
            task_id="totals",
            inputs={"sold": sold},
            transform=total,
            sink=DeltaTable(TOTALS, mode="overwrite_partitions", files=1),
        )
    make_tables() >> load >> add_up
