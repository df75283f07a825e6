"""`noops_<n>`: n subtasks that each read one row and write it, for what a subtask costs Airflow.

`noops_<n>_in_triggerer`: the same without workers for them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pendulum
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions, VertexOptions

DATA = os.environ["AIRFLOW_ABS_BENCH_DATA"]

for folder in sorted(Path(DATA).glob("noops_*")):
    count = int(folder.name.rpartition("_")[2])
    for dag_id, starts_in_triggerer in ((folder.name, False), (f"{folder.name}_in_triggerer", True)):
        with (
            DAG(dag_id, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None),
            AdaptiveSparkJob("job", options=JobOptions(start_from_trigger=starts_in_triggerer)),
        ):
            AdaptiveSparkOperator(task_id="noop", source=Files(str(folder)), options=VertexOptions(parallelism=count))
