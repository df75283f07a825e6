"""A stream without an end over files, and one that ends: runs are triggered by tests."""

from __future__ import annotations

import os

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import AdaptiveSparkStream, Files

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]


def landing() -> Files:
    return Files(f"{LAKE}/stream", schema="number BIGINT", options={"maxFilesPerTrigger": "1"})


def doubled(numbers, factor):  # type: ignore[no-untyped-def]
    from pyspark.sql import functions as sf

    unique = numbers.withColumn("at", sf.timestamp_seconds(sf.col("number") + 1_000_000)).withWatermark("at", "1 hour")
    return unique.dropDuplicates(["number", "at"]).select((sf.col("number") * factor).alias("number"))


with DAG("stream", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    AdaptiveSparkStream(
        task_id="doubled",
        source=landing(),
        transform=doubled,
        transform_kwargs={"factor": 2},
        sink=Files(f"{MART}/stream", mode="append"),
        checkpoint=f"file://{MART}/checkpoints/stream",
        spark_conf={"spark.sql.shuffle.partitions": 2},
    )


with DAG("stream_bounded", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    AdaptiveSparkStream(
        task_id="all",
        source=Files(f"{LAKE}/stream", schema="number BIGINT", bounded=True),
        sink=Files(f"{MART}/stream_bounded", mode="append"),
        checkpoint=f"file://{MART}/checkpoints/stream_bounded",
    )


@task.adaptive_spark_stream(
    source=landing(),
    sink=Files(f"{MART}/stream_now", mode="append"),
    checkpoint=f"file://{MART}/checkpoints/stream_now",
    available_now=True,
)
def passed(numbers, least):  # type: ignore[no-untyped-def]
    return numbers.where(f"number >= {least}")


with DAG("stream_now", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    passed(least=0)
