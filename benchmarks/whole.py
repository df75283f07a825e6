"""The peers that run the whole job in one Airflow task, as one plan: what a user would write without us.

`spark-submit whole.py WORKLOAD DATA OUT` is a Spark application of its own; `run_connected` is one client on the warm
Connect server. Either starts from its first step after a failure.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.submit_step import place
from benchmarks.workloads import WORKLOADS, Workload, compose

TASK = "whole"


def run_whole(session: Any, workload: Workload, data: str, out: str) -> float:
    """One plan, nothing written in between; the seconds that it took."""
    started = time.monotonic()
    frame = compose(workload, lambda table: session.read.parquet(f"{data}/{table}"))
    frame.write.mode("overwrite").parquet(place(workload, workload.last.name, out))
    return time.monotonic() - started


def run_connected(workload_name: str, data: str, out: str) -> float:
    """In an Airflow task; what it returns is told apart from the task's seconds as Spark's."""
    from airflow.sdk import get_current_context

    from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
    from airflow_abs.spark.connect.session import open_session

    instance = get_current_context()["ti"]
    endpoint = AdaptiveSparkHook("spark_connect_default").get_endpoint()
    session_id = connected_session(instance.dag_id, instance.run_id, instance.try_number)
    with open_session(endpoint, session_id=session_id) as session:
        return run_whole(session, WORKLOADS[workload_name], data, out)


def connected_session(dag_id: str, run_id: str, number: int) -> str:
    """The id of the Spark session of one try, so that whoever kills the try can end it there too."""
    from airflow_abs.spark.connect.operations import derive_id

    return derive_id("whole", dag_id, run_id, number)


def main(workload: str, data: str, out: str) -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.appName(workload).config("spark.sql.session.timeZone", "UTC")
    run_whole(session.getOrCreate(), WORKLOADS[workload], data, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
