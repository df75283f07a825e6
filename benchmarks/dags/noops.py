"""`noops_<n>`: n subtasks that each read one row and write it, for what a subtask costs Airflow.

`noops_<n>_in_triggerer`: the same without workers for them. `sums_<n>_in_triggerer`: n subtasks that each map a file
and shuffle its rows to a few, which write a table of sums.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATA = os.environ["AIRFLOW_ABS_BENCH_DATA"]
OUT = os.environ.get("AIRFLOW_ABS_BENCH_OUT", "")


def double_thirds(sales: DataFrame) -> DataFrame:
    return sales.where("amount % 3 = 0").selectExpr("key", "2 * amount AS amount")


def add_up(doubled: DataFrame) -> DataFrame:
    return doubled.groupBy("key").agg({"amount": "sum"}).withColumnRenamed("sum(amount)", "amount")


for folder in sorted(Path(DATA).glob("noops_*")):
    count = int(folder.name.rpartition("_")[2])
    for dag_id, starts_in_triggerer in ((folder.name, False), (f"{folder.name}_in_triggerer", True)):
        with (
            DAG(dag_id, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None),
            AdaptiveSparkJob("job", options=JobOptions(start_from_trigger=starts_in_triggerer)),
        ):
            AdaptiveSparkOperator(task_id="noop", source=Files(str(folder)), options=VertexOptions(parallelism=count))

for folder in sorted(Path(DATA).glob("sums_*")):
    dag_id, count = f"{folder.name}_in_triggerer", int(folder.name.rpartition("_")[2])
    with (
        DAG(dag_id, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None),
        AdaptiveSparkJob("job", options=JobOptions(start_from_trigger=True)),
    ):
        doubled = AdaptiveSparkOperator(
            task_id="doubled",
            source=Files(str(folder)),
            transform=double_thirds,
            options=VertexOptions(parallelism=count),
        )
        AdaptiveSparkOperator(
            task_id="sums",
            inputs={"doubled": doubled.hash("key")},
            transform=add_up,
            options=VertexOptions(parallelism=8),
            sink=Files(f"{OUT}/{dag_id}"),
        )
