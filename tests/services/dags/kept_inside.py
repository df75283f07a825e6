"""Small steps that are one operation of Spark, as `auto` decides it; with one edge that is written; and in chains."""

from __future__ import annotations

import os

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions
from airflow_abs.airflow_abilities import AirflowSkipException

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
EACH = "SELECT number, number % 3 AS digit FROM {numbers}"
SUMS = "SELECT digit, sum(number) AS total FROM {digits} GROUP BY digit"
LARGE = "SELECT * FROM {sums} WHERE total > 0"


@task
def not_today() -> None:
    raise AirflowSkipException


for dag_id, durable in (("kept_inside", None), ("kept_inside_in_part", True), ("kept_inside_not_today", None)):
    with DAG(dag_id, schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
        with AdaptiveSparkJob("job", durability="auto"):
            numbers = AdaptiveSparkOperator(task_id="numbers", source=Files(f"{LAKE}/numbers_of_one_day"))
            if dag_id == "kept_inside_not_today":
                not_today() >> numbers
            digits = AdaptiveSparkOperator(task_id="digits", inputs={"numbers": numbers.rebalance()}, sql=EACH)
            sums = AdaptiveSparkOperator(
                task_id="sums", inputs={"digits": digits.hash("digit", durable=durable)}, sql=SUMS
            )
            AdaptiveSparkOperator(
                task_id="large", inputs={"sums": sums.hash("digit")}, sql=LARGE, sink=Files(f"{MART}/{dag_id}")
            )

with DAG("chained", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("job", durability="always", options=JobOptions(chaining=True)):
        numbers = AdaptiveSparkOperator(task_id="numbers", source=Files(f"{LAKE}/numbers_of_one_day"))
        digits = AdaptiveSparkOperator(task_id="digits", inputs={"numbers": numbers}, sql=EACH)
        sums = AdaptiveSparkOperator(task_id="sums", inputs={"digits": digits}, sql=SUMS)
        AdaptiveSparkOperator(task_id="large", inputs={"sums": sums}, sql=LARGE, sink=Files(f"{MART}/chained"))
