"""An incremental load whose transform fails while a file is there; runs are triggered by tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]


def check(orders: DataFrame, refused: str) -> DataFrame:
    from pyspark.sql import functions as sf

    def pass_on(number: int) -> int:
        from pathlib import Path

        if refused and Path(refused).exists():
            raise ValueError("refused")
        return number

    return orders.select(sf.udf(pass_on, "long")("number").alias("number"))


with DAG(
    "hourly_load",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    params={"refused": ""},
):
    with AdaptiveSparkJob("load"):
        AdaptiveSparkOperator(
            task_id="orders",
            source=Files(f"{LAKE}/landing", schema="number BIGINT", incremental=True),
            transform=check,
            transform_kwargs={"refused": "{{ params.refused }}"},
            sink=Files(f"{MART}/hourly_load", mode="append"),
        )
