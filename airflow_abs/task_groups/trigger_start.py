"""Make `decide` and mapped `run` tasks start in the triggerer, and refuse what Airflow would silently ignore there."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.triggers.base import StartTriggerArgs

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.settings import JobSettings

_DECIDE = "airflow_abs.triggers.decide.DecideTrigger"
_RUN = "airflow_abs.triggers.start_subtask.StartSubtaskTrigger"
LIMITS = ("pool", "pool_slots", "max_active_tis_per_dag", "max_active_tis_per_dagrun")
_WORKER_HOOKS = ("pre_execute", "post_execute", "on_execute_callback")


def check_arguments(vertex: str, task_kwargs: Mapping[str, Any]) -> None:
    """A vertex's own Airflow arguments have to mean something without a worker.

    Raises:
        JobGraphError: names the first that would be ignored.
    """
    for name in (*LIMITS, *_WORKER_HOOKS):
        if name in task_kwargs:
            instead = "use JobOptions(slots=...)" if name in LIMITS else "drop it"
            raise JobGraphError(
                f"vertex {vertex!r}: {name} has no effect with start_from_trigger=True, because no worker runs its "
                f"subtasks; {instead}, or set start_from_trigger=False"
            )


def decide_from_trigger(decide: Any) -> None:
    """The decision for one region needs no worker either.

    Args:
        decide: its operator.
    """
    decide.start_from_trigger = True
    decide.start_trigger_args = StartTriggerArgs(
        trigger_cls=_DECIDE,
        next_method="execute_complete",
        trigger_kwargs={
            "exchange": decide.exchange,
            "job": decide.job,
            "region": decide.region,
            "table_kinds": list(decide.table_kinds),
            "declarations": decide.declarations,
        },
    )


def run_from_trigger(run: Any, settings: JobSettings, common: Mapping[str, Any], limit: timedelta | None) -> None:
    """Airflow copies no such arguments to a mapped operator, so they are set on it.

    Args:
        run: the mapped operator.
        common: what all tasks of the job know.
        limit: execution timeout. Airflow's own would count the time without a slot, too, and leave Spark running.
    """
    run.start_from_trigger = True
    run.start_trigger_args = StartTriggerArgs(
        trigger_cls=_RUN,
        next_method="execute_complete",
        trigger_kwargs={
            **common,
            "region": run.partial_kwargs["region"],
            **settings.slot_options(),
            "stall_after": settings.stall_after,
            "execution_timeout": None if limit is None else limit.total_seconds(),
        },
    )
