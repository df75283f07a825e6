"""What tasks import, imported once by each process that starts them; and what triggers wait for, made at the start.

For an ``airflow_local_settings.py``: ``import airflow_abs.preload``. LocalExecutor, Celery's workers and the DAG
processor fork a process for each task and each DAG file, and each of those would import all of this again. A triggerer
forks one that runs all triggers.
"""

from __future__ import annotations

import concurrent.futures.thread
import logging
import os
import sys
from contextlib import suppress
from importlib import import_module

__all__: list[str] = []  # Airflow takes all names of its local settings

OF_TASKS = (
    "airflow.dag_processing.bundles.local",
    "airflow.dag_processing.dagbag",
    "airflow.providers.amazon.aws.fs.s3",  # every task that opens a path looks for all kinds of storage
    "airflow.providers.apache.spark.hooks.spark_connect",
    "airflow.providers.standard.operators.bash",
    "airflow.providers.standard.operators.empty",
    "airflow.providers.standard.operators.python",  # with `bash` and `empty`: what DAG files import
    "airflow.sdk.execution_time.cache",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.observability.stats",
    "airflow_abs.exchange.pruning.pruning",
    "airflow_abs.exchange.publish.published_rows",
    "airflow_abs.exchange.records.job_history",
    "airflow_abs.exchange.records.reports",
    "airflow_abs.exchange.results.audit",
    "airflow_abs.exchange.results.outdated",
    "airflow_abs.exchange.runs.cleaning",
    "airflow_abs.exchange.runs.past_run",
    "airflow_abs.exchange.runs.root_marker",
    "airflow_abs.exchange.runs.run_reading",
    "airflow_abs.hooks.adaptive_spark",
    "airflow_abs.hooks.secrets",
    "airflow_abs.operators.adaptive_spark",
    "airflow_abs.operators.commit",
    "airflow_abs.operators.decide",
    "airflow_abs.operators.plan",
    "airflow_abs.operators.release",
    "airflow_abs.operators.run_subtask",
    "airflow_abs.spark.hot_keys",
    "airflow_abs.spark.planning",
    "airflow_abs.spark.run.progress",
    "airflow_abs.spark.run.subtask",
    "airflow_abs.spark.server.application",
    "airflow_abs.spark.server.embedded",
    "airflow_abs.tables.access",
    "airflow_abs.tables.catalog.statements",
    "airflow_abs.tables.declared",
    "airflow_abs.tables.inference",
    "airflow_abs.tables.publishing.publication",
    "airflow_abs.task_groups.adaptive_spark",
    "airflow_abs.execution.decide",
    "airflow_abs.execution.metrics",
    "airflow_abs.execution.spans",
    "grpc.aio",
    "jinja2.ext",
    "upath.implementations.local",
)
"""Nothing that starts a thread, as numpy does and so PySpark's client: a process with threads should not fork."""


def import_what_tasks_need() -> None:
    """Whatever is installed of it. Importing it a second time costs nothing."""
    for name in OF_TASKS:
        with suppress(ImportError):  # an extra that is not there; else the task says what is wrong, and is heard
            import_module(name)
    with suppress(ImportError):
        import_module("airflow_abs.spark.connect.protocol").protos()


HOOKED = (logging, concurrent.futures.thread)
"""Both hold a lock over a fork. First imported by our own hook, they would release what they never held."""

os.register_at_fork(before=import_what_tasks_need)  # not now: Airflow itself is still being imported


def ask_airflow_of_triggers() -> None:
    """In a process that a triggerer forks (`airflow triggerer`): the first question there takes seconds."""
    from airflow_abs.execution.triggerer_comms import start_asking_in_thread

    start_asking_in_thread()


if sys.argv[1:2] == ["triggerer"]:
    os.register_at_fork(after_in_child=ask_airflow_of_triggers)
