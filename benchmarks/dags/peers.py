"""For every workload the DAGs that are compared: `<workload>__<peer>`, see `PEERS`.

`pooled` is ours in a pool, `worker` and `auto_on_workers` are without the triggerer, `triggerer` is ours without
workers, `separate` is ours with tasks for every region, `fused_day` is ours with every day small enough to be fused,
`scaled` is ours with small subtasks; `whole` and `whole_connect` are one task each. All read the tables that the run is
told, run the same steps, and retry a killed task after one second.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pendulum
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, get_parsing_context

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, JobOptions
from benchmarks import POOL, slices, submit_step, whole
from benchmarks.workloads import Workload, chosen

TABLES = "{{ dag_run.conf.tables }}"
OUT = os.environ["AIRFLOW_ABS_BENCH_OUT"]
OWN_OUT = f"{OUT}/{{{{ dag.dag_id }}}}/{{{{ run_id }}}}"
SUBMIT = [os.environ["AIRFLOW_ABS_BENCH_SUBMIT"], "--master", "local[*]", "--driver-memory", "2g"]
SUBMIT += ["--conf", "spark.ui.enabled=false"]
RETRIES: dict[str, Any] = {"retries": 4, "retry_delay": timedelta(seconds=1)}


def ours(workload: Workload, operator: Mapping[str, Any] | None = None, **arguments: Any) -> None:
    with AdaptiveSparkJob("job", **arguments):
        vertices: dict[str, AdaptiveSparkOperator] = {}
        for step in workload.steps:
            inputs = {
                name: vertices[edge.step].hash(*edge.keys) if edge.keys else vertices[edge.step].broadcast()
                for name, edge in step.inputs.items()
            }
            vertices[step.name] = AdaptiveSparkOperator(
                task_id=step.name,
                transform=step.transform,
                source=Files(f"{TABLES}/{step.source}") if step.source else None,
                inputs=inputs,
                sink=Files(OWN_OUT) if step is workload.last else None,
                retry_delay=RETRIES["retry_delay"],
                **(operator or {}),
            )


def whole_job(workload: Workload) -> None:
    """One cold `spark-submit` of the whole job, with Spark's own defaults: 200 shuffle partitions, AQE."""
    command = shlex.join([*SUBMIT, whole.__file__, workload.name, TABLES])
    BashOperator(task_id=whole.TASK, bash_command=f"{command} {OWN_OUT}", **RETRIES)


def whole_connected(workload: Workload) -> None:
    """One Connect client on the warm server runs the whole job."""
    arguments = [workload.name, TABLES, OWN_OUT]
    PythonOperator(task_id=whole.TASK, python_callable=whole.run_connected, op_args=arguments, **RETRIES)


def submit(workload: Workload) -> None:
    """One `spark-submit` per step, with Spark's own defaults: 200 shuffle partitions, AQE."""
    tasks: dict[str, BashOperator] = {}
    for step in workload.steps:
        command = shlex.join([*SUBMIT, submit_step.__file__, workload.name, step.name, TABLES])
        tasks[step.name] = BashOperator(task_id=step.name, bash_command=f"{command} {OWN_OUT}", **RETRIES)
        for edge in step.inputs.values():
            tasks[edge.step] >> tasks[step.name]


def sliced(workload: Workload) -> None:
    """One mapped task per step, each instance with a Connect client of its own on a fixed slice of the keys."""
    tasks: dict[str, Any] = {}
    for step in workload.steps:
        tasks[step.name] = PythonOperator.partial(
            task_id=step.name,
            python_callable=slices.run_slice,
            op_args=[workload.name, step.name, TABLES, OWN_OUT],
            **RETRIES,
        ).expand(op_kwargs=[{"index": index} for index in range(slices.SLICES)])
        for edge in step.inputs.values():
            tasks[edge.step] >> tasks[step.name]


PEERS = {
    "ours": ours,
    "pooled": lambda workload: ours(workload, operator={"pool": POOL}),
    "worker": lambda workload: ours(workload, options=JobOptions(deferrable=False)),
    "triggerer": lambda workload: ours(workload, options=JobOptions(start_from_trigger=True)),
    "auto": lambda workload: ours(workload, durability="auto"),
    "auto_on_workers": lambda workload: ours(workload, durability="auto", options=JobOptions(deferrable=False)),
    "fused_day": lambda workload: ours(
        workload, durability="auto", options=JobOptions(durability_budget=0, failures_per_run=0, failures_per_day=0)
    ),
    "separate": lambda workload: ours(workload, options=JobOptions(share_tasks=False)),
    "scaled": lambda workload: ours(workload, target_bytes="16MB", options=JobOptions(share_tasks=False)),
    "whole": whole_job,
    "whole_connect": whole_connected,
    "submit": submit,
    "slices": sliced,
}


def declare_dag(workload: Workload, peer: str) -> None:
    """Unless a task of another DAG parses this file: authors do not have so many DAGs in one."""
    dag_id = f"{workload.name}__{peer}"
    if get_parsing_context().dag_id in (None, dag_id):
        with DAG(dag_id, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), schedule=None):
            PEERS[peer](workload)


for workload in chosen(name for name in os.environ["AIRFLOW_ABS_BENCH_WORKLOADS"].split(",") if name):
    for peer in PEERS:
        declare_dag(workload, peer)
