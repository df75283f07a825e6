"""A job that shows Spark's server a token that it does not know."""

from __future__ import annotations

import os

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files

LAKE = os.environ.get("AIRFLOW_ABS_DEMO_DATA", "/tmp/data")

with (
    DAG("wrong_token", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), default_args={"retries": 0}),
    AdaptiveSparkJob("job", conn_id="wrong_token"),
):
    AdaptiveSparkOperator(
        task_id="customers",
        source=Files(f"{LAKE}/customers"),
        sink=Files(os.environ.get("AIRFLOW_ABS_DEMO_OUT", "/tmp/mart") + "/wrong_token"),
    )
