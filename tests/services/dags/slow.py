"""Subtasks that take a while, by a Python function of this file.

`slow` is handed over to the triggerer after one second and ends there; the others take a minute and are for killing.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
SECONDS_PER_ROW = 0.1


def sleep_on_it(number: int) -> int:
    import time

    time.sleep(SECONDS_PER_ROW)
    return number + 1


def slowly(numbers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(sleep_on_it, "long")("number").alias("number"))


for dag_id, source, deferrable, limit in (
    ("slow", "numbers", True, None),
    ("slow_in_worker", "many_numbers", False, None),
    ("slow_in_triggerer", "many_numbers", True, None),
    ("slow_and_limited", "many_numbers", True, timedelta(seconds=4)),
):
    with DAG(dag_id, schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
        # In one second a slow machine does not start what it hands over.
        defer_after = 8 if dag_id == "slow_in_triggerer" else 1
        with AdaptiveSparkJob(
            "job", target_bytes=1, options=JobOptions(deferrable=deferrable, defer_after=defer_after)
        ):
            AdaptiveSparkOperator(
                task_id="numbers",
                source=Files(f"{LAKE}/{source}"),
                transform=slowly,
                sink=Files(f"{MART}/{dag_id}"),
                retries=0,
                execution_timeout=limit,
            )
