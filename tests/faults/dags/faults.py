"""Four regions whose subtasks take some seconds each, so that there is something to kill; and four that fail once.

The last of the four may append its rows to tables, too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import (
    AdaptiveSparkJob,
    AdaptiveSparkOperator,
    DeltaTable,
    Files,
    IcebergTable,
    JobOptions,
    PostgresTable,
    Table,
    VertexOptions,
)
from airflow_abs.restart_strategy import ExponentialDelayRestart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_FAULTS_LAKE", "/tmp/faults/lake")
MART = os.environ.get("AIRFLOW_ABS_FAULTS_MART", "/tmp/faults/mart")
PLACE = os.environ.get("AIRFLOW_ABS_FAULTS_TABLES", "")
TABLES = {
    "iceberg": IcebergTable("lake.db.totals"),
    "delta": DeltaTable(f"{PLACE}/delta"),
    "postgres": PostgresTable("warehouse", "public.totals"),
    "catalog": Table("db.totals"),
}


GROUPED = bool(os.environ.get("AIRFLOW_ABS_FAULTS_GROUPED"))
STEPS_PER_ROW = 100 if GROUPED else 300  # of three times as many rows, see the suite


def read_slowly(orders: DataFrame) -> DataFrame:
    return orders.where(f"aggregate(sequence(1, {STEPS_PER_ROW}), 0L, (sum, n) -> sum + n % 7) > 0")


def enrich(orders: DataFrame, customers: DataFrame) -> DataFrame:
    joined = orders.join(customers, "customer_id").select("order_id", "amount", "region")
    return joined.where("aggregate(sequence(1, 300), 0L, (sum, n) -> sum + n % 5) > 0")


def total_by_region(enriched: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.count("*").alias("orders"))


def spend(orders: DataFrame, customers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    joined = orders.join(customers, "customer_id").groupBy("customer_id", "region")
    return joined.agg(sf.sum("amount").alias("amount"), sf.count("*").alias("orders"))


def total_spend(enriched: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.sum("orders").alias("orders"))


def name_run(totals: DataFrame, run: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return totals.select("region", sf.col("revenue").cast("decimal(22,2)").alias("revenue"), "orders").withColumn(
        "run", sf.lit(run)
    )


with DAG(
    "faults",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=4,
    # A worker that is killed is Airflow's to retry, and here it may be killed every few seconds.
    default_args={"retries": 10, "retry_delay": pendulum.duration(seconds=2)},
):
    with AdaptiveSparkJob(
        "job",
        restart_strategy=ExponentialDelayRestart(initial=1.0, longest=5.0, attempts=10),
        options=JobOptions(defer_after=2.0),
    ):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders"), transform=read_slowly)
        customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{LAKE}/customers"))
        enriched = AdaptiveSparkOperator(
            task_id="enriched",
            inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast()},
            transform=spend if GROUPED else enrich,
            options=VertexOptions(parallelism=3),
        )
        totals = AdaptiveSparkOperator(
            task_id="by_region",
            inputs={"enriched": enriched.hash("region")},
            transform=total_spend if GROUPED else total_by_region,
            sink=Files(f"{MART}/run={{{{ run_id }}}}"),
        )
        for name, table in TABLES.items() if PLACE else ():
            AdaptiveSparkOperator(
                task_id=name,
                inputs={"totals": totals.forward()},
                transform=name_run,
                transform_kwargs={"run": "{{ run_id }}"},
                sink=table,
            )


def join(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, "customer_id")


def die_once(region: str, flag: str) -> str:
    """Ends the Python worker of Spark that gets here first, as the kernel does when memory is short."""
    import os

    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return region
    os._exit(9)


def total_after_a_death(enriched: DataFrame, flag: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return total_by_region(enriched.where(sf.udf(die_once)("region", sf.lit(flag)) == sf.col("region")))


with DAG("fails_last", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False):
    with AdaptiveSparkJob("job", restart_strategy=ExponentialDelayRestart(initial=1.0, attempts=2)):
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{LAKE}/orders"))
        customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{LAKE}/customers"))
        enriched = AdaptiveSparkOperator(
            task_id="enriched",
            inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast()},
            transform=join,
            options=VertexOptions(parallelism=2),
        )
        AdaptiveSparkOperator(
            task_id="by_region",
            inputs={"enriched": enriched.hash("region")},
            transform=total_after_a_death,
            transform_kwargs={"flag": f"{MART}/gates/{{{{ run_id }}}}"},
            options=VertexOptions(parallelism=2),
            sink=Files(f"{MART}/run={{{{ run_id }}}}"),
        )
