"""Subtasks, twenty or two, that wait for a file before they go on; and one that fails as users' code does."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ.get("AIRFLOW_ABS_FAULTS_LAKE", "/tmp/faults/lake")
MART = os.environ.get("AIRFLOW_ABS_FAULTS_MART", "/tmp/faults/mart")
START = pendulum.datetime(2026, 1, 1, tz="UTC")


def pass_gate(number: int, gate: str) -> int:
    """One more than the number, once there is a file `gate`; what nobody opens opens itself after some minutes."""
    import time
    from pathlib import Path

    deadline = time.monotonic() + 400
    while not Path(gate).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    return number + 1


def refuse(number: int) -> int:
    raise ValueError(f"bad number {number}")


def behind_a_gate(numbers: DataFrame, gate: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(pass_gate, "long")("number", sf.lit(gate)).alias("number"))


def signed_behind_a_gate(numbers: DataFrame, gate: str, run: str) -> DataFrame:
    from pyspark.sql import functions as sf

    return behind_a_gate(numbers, gate).withColumn("run", sf.lit(run))


def raise_in_udf(numbers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.select(sf.udf(refuse, "long")("number").alias("number"))


with DAG("many", schedule=None, start_date=START):
    with AdaptiveSparkJob("job", target_bytes=1, options=JobOptions(defer_after=0.5)):
        AdaptiveSparkOperator(
            task_id="numbers",
            source=Files(f"{LAKE}/numbers"),
            transform=behind_a_gate,
            transform_kwargs={"gate": f"{MART}/gates/{{{{ run_id }}}}"},
            sink=Files(f"{MART}/many"),
            pool="default_pool",  # of the author's own: they are not queued for the two slots
        )

with DAG("few", schedule=None, start_date=START):
    with AdaptiveSparkJob("job", target_bytes=1, options=JobOptions(defer_after=0.5)):
        AdaptiveSparkOperator(
            task_id="numbers",
            source=Files(f"{LAKE}/numbers/part-0[01].parquet"),
            transform=behind_a_gate,
            transform_kwargs={"gate": f"{MART}/gates/{{{{ run_id }}}}"},
            sink=Files(f"{MART}/few-{{{{ run_id }}}}"),
        )

with DAG("twins", schedule=None, start_date=START):
    with AdaptiveSparkJob("job", target_bytes=1, options=JobOptions(defer_after=0.5)):
        AdaptiveSparkOperator(
            task_id="numbers",
            source=Files(f"{LAKE}/numbers/part-0[01].parquet"),
            transform=signed_behind_a_gate,
            transform_kwargs={"gate": f"{MART}/gates/twins", "run": "{{ run_id }}"},
            sink=Files(f"{MART}/twins"),
        )

with DAG("wrong", schedule=None, start_date=START):
    with AdaptiveSparkJob("job"):
        AdaptiveSparkOperator(
            task_id="numbers", source=Files(f"{LAKE}/numbers"), transform=raise_in_udf, sink=Files(f"{MART}/wrong")
        )
