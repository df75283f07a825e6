"""Two slots, one step of more subtasks than that which takes a while, and one that sums up.

In `from_trigger` subtasks start in the triggerer, in `queued` their workers defer them to it. A number in
`conf["dies_at"]` makes the Python worker that meets it die once.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions
from airflow_abs.restart_strategy import FixedDelayRestart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
EXCHANGE = os.environ["AIRFLOW__ADAPTIVE_SPARK__EXCHANGE"]
SECONDS_PER_ROW = 0.1


def increment(numbers: DataFrame, dies_at: str, once: str) -> DataFrame:
    from pyspark.sql import functions as sf

    def sleep_on_it(number: int) -> int:
        import os
        import time
        from pathlib import Path

        if dies_at == str(number) and not Path(once).exists():
            Path(once).touch()
            os._exit(1)
        time.sleep(SECONDS_PER_ROW)
        return number + 1

    return numbers.select(sf.udf(sleep_on_it, "long")("number").alias("number"))


def add_up(numbers: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sf

    return numbers.agg(sf.count("*").alias("count"), sf.sum("number").alias("sum"))


for dag_id, starts_in_triggerer in (("from_trigger", True), ("queued", False)):
    with (
        DAG(
            dag_id,
            schedule=None,
            start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
            params={"dies_at": "", "once": ""},
            max_active_runs=3,
        ),
        AdaptiveSparkJob(
            "job",
            exchange=EXCHANGE + "{{ '/' if dag.dag_id in ('from_trigger', 'queued') else '/not-rendered' }}",
            target_bytes=1,
            options=JobOptions(slots=2, start_from_trigger=starts_in_triggerer),
            restart_strategy=FixedDelayRestart(2, 1.0),
        ),
    ):
        numbers = AdaptiveSparkOperator(
            task_id="numbers",
            source=Files(f"{LAKE}/few_numbers"),
            transform=increment,
            transform_kwargs={"dies_at": "{{ params.dies_at }}", "once": "{{ params.once }}"},
        )
        AdaptiveSparkOperator(
            task_id="total",
            inputs={"numbers": numbers.rebalance()},
            transform=add_up,
            options=VertexOptions(parallelism=1),
            sink=Files(f"{MART}/{dag_id}/{{{{ run_id }}}}"),
        )
