"""`run` tasks that start in the triggerer: what Airflow is given, and what is refused because it would be ignored."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.airflow_abilities import START_IN_TRIGGERER, has
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.triggers.decide import DecideTrigger
from airflow_abs.triggers.start_subtask import StartSubtaskTrigger
from tests.gathered import job_arguments, vertex_arguments

pytestmark = pytest.mark.skipif(not has(START_IN_TRIGGERER), reason=START_IN_TRIGGERER.lack)


def job_with(vertex: dict[str, Any] | None = None, dag: dict[str, Any] | None = None, **options: Any) -> DAG:
    with DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), **(dag or {})) as made:
        with AdaptiveSparkJob(
            "revenue", **job_arguments({"exchange": "/x/{{ ds }}", "start_from_trigger": True, **options})
        ):
            AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), **vertex_arguments(vertex or {}))
    return made


def trigger_kwargs(dag: DAG) -> dict[str, Any]:
    return dict(dag.get_task("revenue.orders.run").start_trigger_args.trigger_kwargs)


def test_both_tasks_start_in_the_triggerer_also_after_serialisation() -> None:
    from tests.dag_serialization import DagSerialization

    stored = json.loads(json.dumps(DagSerialization.to_dict(job_with(slots=3))))
    run = DagSerialization.from_dict(stored).get_task("revenue.orders.run")
    assert run.start_from_trigger is True
    assert run.start_trigger_args.next_method == "execute_complete"
    assert run.start_trigger_args.trigger_cls == f"{StartSubtaskTrigger.__module__}.{StartSubtaskTrigger.__name__}"
    decide = DagSerialization.from_dict(stored).get_task("revenue.orders.decide")
    assert decide.start_from_trigger is True
    assert decide.start_trigger_args.trigger_cls == f"{DecideTrigger.__module__}.{DecideTrigger.__name__}"
    stored_values = decide.start_trigger_args.trigger_kwargs["__var"]  # as Airflow stores a dict
    values = {"exchange": "/x/{{ ds }}", "job": "revenue", "region": "orders", "table_kinds": []}
    assert {name: stored_values[name] for name in values} == values
    values["declarations"] = stored_values["declarations"]["__var"]
    assert list(values["declarations"]) == ["orders"]
    assert DecideTrigger(**values).serialize()[1] == values


def test_its_arguments_are_what_the_trigger_takes() -> None:
    values = trigger_kwargs(job_with(resource_timeout=60))
    assert values == {
        "conn_id": "spark_connect_default",
        "exchange": "/x/{{ ds }}",
        "job": "revenue",
        "ephemeral": False,
        "region": "orders",
        "slots": None,
        "resource_timeout": 60.0,
        "resource_stabilization": 10.0,
        "stall_after": 600.0,
        "execution_timeout": None,
    }
    assert StartSubtaskTrigger(**values).serialize()[1] == {**values, "deferred": False}


@pytest.mark.parametrize("where", ["vertex", "dag"])
def test_the_trigger_keeps_the_execution_timeout_which_airflow_would_count_from_the_queue(where: str) -> None:
    limit = {"execution_timeout": timedelta(minutes=5)}
    dag = job_with(limit) if where == "vertex" else job_with(dag={"default_args": limit})
    assert trigger_kwargs(dag)["execution_timeout"] == 300.0
    assert dag.get_task("revenue.orders.run").partial_kwargs["execution_timeout"] is None


@pytest.mark.parametrize("task", ["decide", "run"])
def test_without_it_both_start_in_a_worker(task: str) -> None:
    assert job_with(start_from_trigger=None).get_task(f"revenue.orders.{task}").start_from_trigger is False


@pytest.mark.parametrize(
    ("name", "value", "instead"),
    [
        ("pool", "spark", "use JobOptions(slots=...)"),
        ("pool_slots", 2, "use JobOptions(slots=...)"),
        ("max_active_tis_per_dagrun", 2, "use JobOptions(slots=...)"),
        ("on_execute_callback", print, "drop it"),
    ],
)
def test_what_airflow_would_ignore_is_refused(name: str, value: object, instead: str) -> None:
    with pytest.raises(JobGraphError, match=f"vertex 'orders': {name} has no effect .*; {re.escape(instead)}, or set"):
        job_with({name: value})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"deferrable": False}, "start_from_trigger=True and deferrable=False contradict each other"),
        ({"resource_stabilization": -1}, "resource_stabilization is -1; expected a number of seconds, at least 0"),
        ({"resource_timeout": "long"}, "resource_timeout is 'long'; expected a number of seconds"),
    ],
)
def test_settings_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        job_with(**options)
