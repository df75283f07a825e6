"""A job that a bad file fails in its second step, for people who clear less than they should."""

from __future__ import annotations

import os

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]

with DAG("partly_cleared", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("job", durability="always", options=JobOptions(share_tasks=False)):
        raw = AdaptiveSparkOperator(
            task_id="raw", source=Files(f"{LAKE}/partly_cleared"), options=VertexOptions(parallelism=3)
        )
        AdaptiveSparkOperator(
            task_id="typed",
            inputs={"raw": raw.hash("number")},
            sql="SELECT number, CAST(amount AS INT) AS amount FROM {raw}",
            options=VertexOptions(parallelism=4),
            sink=Files(f"{MART}/partly_cleared_first"),
        )
