"""Revenue by region and day in an Iceberg table; then of the month so far, from that table.

The connection `lake` says where the catalog is. For a catalog in one file, and tables below a folder:

    airflow connections add lake --conn-type iceberg --conn-extra \
      '{"type": "sql", "uri": "sqlite:////tmp/lake/catalog.db", "warehouse": "file:///tmp/lake"}'

Each run is one snapshot of each table: run it again, or clear any task, and no row is there twice. The second job reads
the snapshot that is current when its `plan` runs, and of that only the files of the month.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import LAST_COMPLETE_DAY as DAY
from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, IcebergTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATA = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/airflow_abs_demo/data")
MONTH = "{{ macros.adaptive_spark.last_complete_day()[:8] }}01"


@task
def make_tables() -> None:
    """Yours are there already: these are the example's."""
    from airflow.sdk import BaseHook
    from pyiceberg.catalog import load_catalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DateType, DecimalType, LongType, NestedField, StringType

    catalog = load_catalog("lake", **BaseHook.get_connection("lake").extra_dejson)
    catalog.create_namespace_if_not_exists("revenue")
    for name, since in (("by_day", "day"), ("by_month", "month")):
        columns = Schema(
            NestedField(1, since, DateType()),
            NestedField(2, "region", StringType()),
            NestedField(3, "orders", LongType()),
            NestedField(4, "revenue", DecimalType(38, 2)),
        )
        spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), since))
        catalog.create_table_if_not_exists(f"revenue.{name}", columns, partition_spec=spec)


def only_valid(orders: DataFrame) -> DataFrame:
    return orders.where("status IN ('F', 'O')").select("order_id", "customer_id", "amount")


def enrich(orders: DataFrame, customers: DataFrame) -> DataFrame:
    return orders.join(customers, "customer_id").select("order_id", "amount", "region")


def total_by_region(enriched: DataFrame, day: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return enriched.groupBy("region").agg(
        sf.lit(day).cast("date").alias("day"), sf.count("order_id").alias("orders"), sf.sum("amount").alias("revenue")
    )


def total_of_month(by_day: DataFrame, month: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return by_day.groupBy("region").agg(
        sf.lit(month).cast("date").alias("month"),
        sf.sum("orders").alias("orders"),
        sf.sum("revenue").cast("decimal(38,2)").alias("revenue"),
    )


with DAG(
    "iceberg_revenue",
    schedule="@daily",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,  # months overwrite each other's partition
    doc_md=__doc__,
    tags=["adaptive_spark"],
):
    with AdaptiveSparkJob("day") as day:
        orders = AdaptiveSparkOperator(task_id="orders", source=Files(f"{DATA}/orders/ds={DAY}"), transform=only_valid)
        customers = AdaptiveSparkOperator(task_id="customers", source=Files(f"{DATA}/customers"))
        enriched = AdaptiveSparkOperator(
            task_id="enriched", inputs={"orders": orders, "customers": customers}, transform=enrich
        )
        AdaptiveSparkOperator(
            task_id="by_day",
            inputs={"enriched": enriched},
            transform=total_by_region,
            transform_kwargs={"day": DAY},
            sink=IcebergTable("lake.revenue.by_day", mode="overwrite_partitions", files=1),
        )
    with AdaptiveSparkJob("month") as month:
        by_day = AdaptiveSparkOperator(
            task_id="by_day",
            source=IcebergTable("lake.revenue.by_day", where=f"day >= '{MONTH}' AND day <= '{DAY}'"),
        )
        AdaptiveSparkOperator(
            task_id="by_month",
            inputs={"by_day": by_day},
            transform=total_of_month,
            transform_kwargs={"month": MONTH},
            sink=IcebergTable("lake.revenue.by_month", mode="overwrite_partitions", files=1),
        )
    make_tables() >> day >> month
