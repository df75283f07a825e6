"""A job with a Spark server of its own on a standalone cluster; its last step fails while a file is there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Ephemeral, Files, JobOptions, VertexOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]


def add_up(numbers: DataFrame, refused: str) -> DataFrame:
    from pyspark.sql import functions as sf

    def check(total: int) -> int:
        from pathlib import Path

        if Path(refused).exists():
            raise ValueError("refused")
        return total

    return numbers.agg(sf.sum("number").alias("sum")).select(sf.udf(check, "long")("sum").alias("sum"))


with DAG(
    "own_server",
    schedule=None,
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    params={"refused": ""},
):
    with AdaptiveSparkJob(
        "job",
        conn_id="run_spark",
        spark=Ephemeral(
            "standalone",
            conf={
                "spark.driver.memory": "768m",
                "spark.executor.memory": "768m",
                "spark.cores.max": "2",
                "spark.ui.enabled": "false",
            },
        ),
        options=JobOptions(start_from_trigger=True),
    ):
        numbers = AdaptiveSparkOperator(task_id="numbers", source=Files(f"{LAKE}/some_numbers"))
        AdaptiveSparkOperator(
            task_id="total",
            inputs={"numbers": numbers.rebalance()},
            transform=add_up,
            transform_kwargs={"refused": "{{ params.refused }}"},
            options=VertexOptions(parallelism=1),
            sink=Files(f"{MART}/own_server"),
        )
