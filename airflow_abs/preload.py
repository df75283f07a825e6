"""What tasks import, imported once by each process that starts them.

For an ``airflow_local_settings.py``: ``import airflow_abs.preload``. LocalExecutor, Celery's workers and the DAG
processor fork a process for each task and each DAG file, and each of those would import all of this anew.
"""

from __future__ import annotations

import concurrent.futures.thread
import logging
import os
from contextlib import suppress
from importlib import import_module

__all__: list[str] = []  # Airflow takes all names of its local settings

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


def import_what_tasks_need() -> None:
    """Whatever is installed of it. Importing it a second time costs nothing."""
    for name in OF_TASKS:
        with suppress(ImportError):  # an extra that is not there; else the task says what is wrong, and is heard
            import_module(name)


HOOKED = (logging, concurrent.futures.thread)
"""Both hold a lock over a fork. First imported by our own hook, they would release what they never held."""

os.register_at_fork(before=import_what_tasks_need)  # not now: Airflow itself is still being imported
