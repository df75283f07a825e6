"""Four regions whose subtasks take some seconds each, so that there is something to kill."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.operators.restart_strategy import ExponentialDelayRestart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_FAULTS_LAKE", "/tmp/faults/lake")
MART = os.environ.get("AIRFLOW_ABS_FAULTS_MART", "/tmp/faults/mart")


def read_slowly(orders: DataFrame) -> DataFrame:
    return orders.where("aggregate(sequence(1, 300), 0L, (sum, n) -> sum + n % 7) > 0")


def enrich(orders: DataFrame, customers: DataFrame) -> DataFrame:
    joined = orders.join(customers, "customer_id").select("order_id", "amount", "region")
    return joined.where("aggregate(sequence(1, 300), 0L, (sum, n) -> sum + n % 5) > 0")


def total_by_region(enriched: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.count("*").alias("orders"))


with DAG("faults", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False, max_active_runs=4):
    with AdaptiveSparkJob(
        "job", restart_strategy=ExponentialDelayRestart(initial=1.0, longest=5.0, attempts=10), defer_after=2.0
    ):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders"), transform=read_slowly)
        customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{LAKE}/customers"))
        enriched = AdaptiveSparkOperator(
            task_id="enriched",
            inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast()},
            transform=enrich,
            parallelism=3,
        )
        AdaptiveSparkOperator(
            task_id="by_region",
            inputs={"enriched": enriched.hash("region")},
            transform=total_by_region,
            sink=Files(f"{MART}/run={{{{ run_id }}}}"),
        )
