"""No Spark: what the tests of the services themselves run."""

from __future__ import annotations

from datetime import timedelta

import pendulum
from airflow.providers.standard.sensors.filesystem import FileSensor
from airflow.sdk import DAG, task

START = pendulum.datetime(2026, 1, 1, tz="UTC")

with DAG("plain", schedule="@daily", start_date=START, catchup=False):

    @task
    def numbers(params: dict[str, int]) -> list[int]:
        if params["count"] < 1:
            raise ValueError(f"nothing to count: {params['count']}")
        return list(range(params["count"]))

    @task
    def double(number: int) -> int:
        return 2 * number

    double.expand(number=numbers())

with DAG("waiting", schedule="@daily", start_date=START, catchup=False):
    # A retry, because Airflow itself may fail a sensor that is resumed within some 5 s of its deferral (#72716).
    FileSensor(
        task_id="file",
        filepath="{{ dag_run.conf['path'] }}",
        deferrable=True,
        poke_interval=1,
        retries=1,
        retry_delay=timedelta(seconds=1),
    )
