"""A vertex with other rows in every attempt, two sinks that have to agree, and a task that loses some of its rows."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG, task

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions

LAKE = os.environ["AIRFLOW_ABS_DEMO_DATA"]
MART = os.environ["AIRFLOW_ABS_DEMO_OUT"]
EXCHANGE = Path(os.environ["AIRFLOW__ADAPTIVE_SPARK__EXCHANGE"].removeprefix("file://"))
DICE = "SELECT number, reflect('java.util.UUID', 'randomUUID') AS dice FROM {source}"
BOTH = "SELECT a.number, a.dice, b.dice AS other FROM {dice} a JOIN {first} b ON a.number = b.number"


@task
def lose() -> None:
    """After `first` is published, and before `second` runs."""
    for attempt in EXCHANGE.glob("dice/*/job/dice/subtask-0/attempt-1"):
        for file in attempt.rglob("part-*"):
            file.unlink()


with DAG("dice", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    with AdaptiveSparkJob("job", durability="always", options=JobOptions(share_tasks=False)):
        dice = AdaptiveSparkOperator(
            task_id="dice",
            source=Files(f"{LAKE}/numbers_of_dice"),
            sql=DICE,
            options=VertexOptions(parallelism=2, deterministic=False),
        )
        first = AdaptiveSparkOperator(
            task_id="first",
            inputs={"dice": dice.hash("number")},
            sql="SELECT * FROM {dice}",
            sink=Files(f"{MART}/dice_first"),
        )
        second = AdaptiveSparkOperator(
            task_id="second",
            inputs={"dice": dice.hash("number"), "first": first.hash("number")},
            sql=BOTH,
            sink=Files(f"{MART}/dice_second"),
        )
        first >> lose() >> second
