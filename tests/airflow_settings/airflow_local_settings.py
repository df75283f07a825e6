"""Read by every Airflow of the tests that has this folder on its PYTHONPATH: what its tasks import, imported once.

Scheduler and DAG processor fork a process for each task and each DAG file, and each would import all of this anew: 0.3
seconds of CPU for a task that needs as much for its own work. That tasks import it themselves is seen in the demo.
"""

from __future__ import annotations

import os
from importlib import import_module

__all__: list[str] = []  # else Airflow takes all names for settings of its own

OF_TASKS = (
    "airflow.dag_processing.dagbag",
    "airflow.providers.amazon.aws.fs.s3",  # every task that opens a path looks for all kinds of storage
    "airflow.providers.standard.operators.empty",
    "airflow.sdk.execution_time.task_runner",
    "airflow_abs.exchange.publish.sinks",
    "airflow_abs.exchange.results.audit",
    "airflow_abs.exchange.runs.past_run",
    "airflow_abs.operators.adaptive_spark",
    "airflow_abs.operators.commit",
    "airflow_abs.operators.decide",
    "airflow_abs.operators.plan",
    "airflow_abs.operators.release",
    "airflow_abs.operators.run_subtask",
    "airflow_abs.spark.hot_keys.after_run",
    "airflow_abs.spark.planning",
    "airflow_abs.spark.run.release",
    "airflow_abs.spark.run.subtask",
    "airflow_abs.tables.declared",
    "airflow_abs.tables.publishing.publication",
    "airflow_abs.task_groups.adaptive_spark",
    "airflow_abs.triggers.decide",
)


def _import_what_tasks_need() -> None:
    for name in OF_TASKS:
        import_module(name)


os.register_at_fork(before=_import_what_tasks_need)  # not here: Airflow itself is still being imported
