"""Three steps that run as one operation of Spark and take their time, each in as many tasks as there are files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
SPARK_CONF = {
    "spark.sql.files.maxPartitionBytes": 2000,
    "spark.sql.files.openCostInBytes": 2000,
    "spark.sql.shuffle.partitions": 8,
    "spark.sql.adaptive.coalescePartitions.enabled": False,
}


def slowly(rows: DataFrame) -> DataFrame:
    def nap(batches):  # type: ignore[no-untyped-def]
        import time

        time.sleep(2)
        yield from batches

    return rows.mapInPandas(nap, rows.schema)


def sum_up(rows: DataFrame) -> DataFrame:
    return slowly(rows.groupBy("number").agg({"copy": "sum"}).toDF("number", "total"))


def count_by_digit(rows: DataFrame) -> DataFrame:
    return slowly(rows.selectExpr("number % 8 AS digit").groupBy("digit").count())


with DAG("long_operation", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    options = JobOptions(durability_budget=0, spark_conf=SPARK_CONF)
    with AdaptiveSparkJob("job", durability="auto", target_bytes="1GB", options=options):
        rows = AdaptiveSparkOperator(task_id="rows", source=Files(f"{LAKE}/eight_files"), transform=slowly)
        sums = AdaptiveSparkOperator(task_id="sums", inputs={"rows": rows.hash("number")}, transform=sum_up)
        AdaptiveSparkOperator(
            task_id="digits",
            inputs={"rows": sums.rebalance()},
            transform=count_by_digit,
            sink=Files(f"{MART}/long_operation"),
        )
