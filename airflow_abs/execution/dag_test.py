"""`airflow dags test`, and `dag.test()`: all tasks of a run in one process, one after the other.

There is no triggerer: Airflow runs a trigger in line and does not tell it which task instance it has, and a trigger's
success wakes the task once more. So a subtask stays with its worker, which has nothing else to do.
"""

from __future__ import annotations


def is_dag_test() -> bool:
    """Whether this task is part of one."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.supervisor import InProcessSupervisorComms

    return isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), InProcessSupervisorComms)
