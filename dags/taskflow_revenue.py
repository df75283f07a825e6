"""The revenue of `daily_revenue` in TaskFlow style: no edges are declared, `plan` finds them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/airflow_abs_demo/data")
MART = os.environ.get("AIRFLOW_ABS_DEMO_OUT", "/tmp/airflow_abs_demo/mart")


@task.adaptive_spark(source=Files(f"{LAKE}/orders/ds={DAY}"))
def orders(orders: DataFrame) -> DataFrame:
    return orders.where("status IN ('F', 'O')").select("order_id", "customer_id", "amount")


@task.adaptive_spark(source=Files(f"{LAKE}/customers"))
def customers(customers: DataFrame) -> DataFrame:
    return customers.select("customer_id", "region")


@task.adaptive_spark
def enriched(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, "customer_id").select("order_id", "amount", "region")


@task.adaptive_spark(sink=Files(f"{MART}/taskflow_revenue/ds={DAY}", mode="overwrite"))
def by_region(enriched: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(
        sf.lit(day).cast("date").alias("day"),
        sf.count("order_id").alias("orders"),
        sf.sum("amount").alias("revenue"),
        sf.max("amount").alias("largest_order"),
    )


with DAG(
    "taskflow_revenue",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    doc_md=__doc__,
    tags=["adaptive_spark"],
):
    with AdaptiveSparkJob("revenue", conn_id="spark_connect_default"):
        by_region(enriched(orders(), customers()), day=DAY)
