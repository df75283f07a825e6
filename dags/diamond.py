"""A diamond: what each customer spent, and what came last; side by side, then joined by two co-partitioned inputs.

`orders` is read once and written once: both branches partition it by the same key, so they share one result.
In `profile`, subtask k reads the same range of customers from both branches.
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


def slim(orders: DataFrame) -> DataFrame:
    return orders.select("order_id", "customer_id", "amount", "status", "priority")


def spend_per_customer(orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    valid = orders.where("status IN ('F', 'O')")
    return valid.groupBy("customer_id").agg(sf.count("order_id").alias("valid_orders"), sf.sum("amount").alias("spend"))


def latest_per_customer(orders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    latest = sf.max_by(sf.struct("order_id", "amount", "priority"), "order_id")
    return (
        orders.groupBy("customer_id")
        .agg(latest.alias("latest"))
        .selectExpr(
            "customer_id",
            "latest.order_id AS latest_order",
            "latest.amount AS latest_amount",
            "latest.priority AS latest_priority",
        )
    )


def join_profile(spend: DataFrame, latest: DataFrame) -> DataFrame:
    return spend.join(latest, "customer_id", "full_outer")


with DAG(
    "diamond",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    doc_md=__doc__,
    tags=["adaptive_spark"],
):
    with AdaptiveSparkJob("profiles", conn_id="spark_connect_default"):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders/ds={DAY}"), transform=slim)
        spend = AdaptiveSparkOperator(
            task_id="spend", inputs={"orders": orders.hash("customer_id")}, transform=spend_per_customer
        )
        latest = AdaptiveSparkOperator(
            task_id="latest", inputs={"orders": orders.hash("customer_id")}, transform=latest_per_customer
        )
        AdaptiveSparkOperator(
            task_id="profile",
            inputs={"spend": spend.hash("customer_id"), "latest": latest.hash("customer_id")},
            transform=join_profile,
            sink=Files(f"{MART}/diamond/ds={DAY}", mode="overwrite"),
        )
