"""Forward and pipelined edges: five steps in three regions, so three mapped Airflow tasks.

* `orders` and `priced` are tied by a forward edge: one region, one Spark plan, as many subtasks as the files call for.
* `spend` reads them by a blocking hash edge: there the fan-out is decided again, from the bytes.
* `spenders` and `classes` are tied by a pipelined hash edge: one region again. All of its consumers need all of its
  producers at once, so it runs as a single subtask, and Spark's own shuffle spreads it.
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
    return orders.where("status IN ('F', 'O')")


def price(orders: DataFrame) -> DataFrame:
    return orders.selectExpr("customer_id", "order_id", "CAST(amount * 0.8 AS DECIMAL(14,3)) AS net")


def spend_per_customer(priced: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return priced.groupBy("customer_id").agg(sf.count("order_id").alias("orders"), sf.sum("net").alias("net"))


def classify(spend: DataFrame) -> DataFrame:
    return spend.selectExpr(
        "CASE WHEN net < 50000 THEN 'small' WHEN net < 250000 THEN 'middle' ELSE 'large' END AS class", "orders", "net"
    )


def total_by_class(spenders: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return spenders.groupBy("class").agg(
        sf.count("class").alias("customers"), sf.sum("orders").alias("orders"), sf.sum("net").alias("net")
    )


with DAG(
    "pipelined",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    doc_md=__doc__,
    tags=["adaptive_spark"],
):
    with AdaptiveSparkJob("spend_classes", conn_id="spark_connect_default"):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders/ds={DAY}"), transform=only_valid)
        priced = AdaptiveSparkOperator(task_id="priced", inputs={"orders": orders.forward()}, transform=price)
        spend = AdaptiveSparkOperator(
            task_id="spend", inputs={"priced": priced.hash("customer_id")}, transform=spend_per_customer
        )
        spenders = AdaptiveSparkOperator(
            task_id="spenders", inputs={"spend": spend.hash("customer_id")}, transform=classify
        )
        AdaptiveSparkOperator(
            task_id="classes",
            inputs={"spenders": spenders.hash("class", pipelined=True)},
            transform=total_by_class,
            sink=Files(f"{MART}/pipelined/ds={DAY}", mode="overwrite"),
        )
