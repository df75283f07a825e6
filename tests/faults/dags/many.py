"""Twenty subtasks that sleep for some seconds, and two that fail as users' code does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_FAULTS_LAKE", "/tmp/faults/lake")
MART = os.environ.get("AIRFLOW_ABS_FAULTS_MART", "/tmp/faults/mart")
START = pendulum.datetime(2026, 1, 1, tz="UTC")


def sleep_on_it(number: int) -> int:
    import time

    time.sleep(3)
    return number + 1


def refuse(number: int) -> int:
    raise ValueError(f"bad number {number}")


def slowly(numbers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(sleep_on_it, "long")("number").alias("number"))


def raise_in_udf(numbers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(refuse, "long")("number").alias("number"))


with DAG("many", schedule=None, start_date=START):
    with AdaptiveSparkJob("job", target_bytes=1, defer_after=0.5):
        AdaptiveSparkOperator(
            task_id="numbers", source=Files(f"{LAKE}/numbers"), transform=slowly, sink=Files(f"{MART}/many")
        )

with DAG("wrong", schedule=None, start_date=START):
    with AdaptiveSparkJob("job"):
        AdaptiveSparkOperator(
            task_id="numbers", source=Files(f"{LAKE}/numbers"), transform=raise_in_udf, sink=Files(f"{MART}/wrong")
        )
