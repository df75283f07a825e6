"""`noops_<n>`: n subtasks that each read one row and write it, for what a subtask costs Airflow."""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files

DATA = os.environ["AIRFLOW_ABS_BENCH_DATA"]

for folder in sorted(Path(DATA).glob("noops_*")):
    with DAG(folder.name, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None), AdaptiveSparkJob("job"):
        count = int(folder.name.rpartition("_")[2])
        AdaptiveSparkOperator(task_id="noop", source=Files(str(folder)), parallelism=count)
