"""Revenue by region and day: orders meet their customers, then every region is summed.

No parallelism is set. On the day, `orders` and `customers` follow the files that are there, `enriched` and
`by_region` the bytes that the steps before them really produced.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/airflow_abs_demo/data")
MART = os.environ.get("AIRFLOW_ABS_DEMO_OUT", "/tmp/airflow_abs_demo/mart")


def only_valid(orders: DataFrame) -> DataFrame:
    return orders.where("status IN ('F', 'O')").select("order_id", "customer_id", "amount")


def enrich(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, "customer_id").select("order_id", "amount", "region", "segment")


def total_by_region(enriched: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(
        sf.lit(day).cast("date").alias("day"),
        sf.count("order_id").alias("orders"),
        sf.sum("amount").alias("revenue"),
        sf.max("amount").alias("largest_order"),
    )


with DAG(
    "daily_revenue",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    doc_md=__doc__,
    tags=["adaptive_spark"],
):
    with AdaptiveSparkJob("revenue", conn_id="spark_connect_default"):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders/ds={DAY}"), transform=only_valid)
        customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{LAKE}/customers"))
        enriched = AdaptiveSparkOperator(
            task_id="enriched",
            # durable: what is read whole by every subtask is there for however many a big day has.
            inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast(durable=True)},
            transform=enrich,
        )
        AdaptiveSparkOperator(
            task_id="by_region",
            inputs={"enriched": enriched.hash("region")},
            transform=total_by_region,
            transform_kwargs={"day": DAY},
            sink=Files(f"{MART}/daily_revenue/ds={DAY}", mode="overwrite"),
        )
