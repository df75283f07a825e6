"""What a job and its edges say of what is written, and what of it reaches `plan`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.operators.plan import PlanOperator

JOIN = "SELECT * FROM {orders} JOIN {customers} USING (key)"


def new_dag() -> DAG:
    return DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))


def declare(name: str, *inputs: Any, **options: Any) -> Any:
    if not inputs:
        return AdaptiveSparkOperator(task_id=name, source=Files(f"/lake/{name}"), **options)
    return AdaptiveSparkOperator(task_id=name, inputs={edge.producer.task_id: edge for edge in inputs}, **options)


def plan_of(job: AdaptiveSparkJob) -> PlanOperator:
    plan = job.children["revenue.plan"]
    assert isinstance(plan, PlanOperator)
    return plan


def new_job(**options: Any) -> AdaptiveSparkJob:
    return AdaptiveSparkJob("revenue", exchange="file:///exchange", **options)


def test_what_decides_reaches_plan_and_is_auto_unless_the_job_or_the_configuration_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AIRFLOW__ADAPTIVE_SPARK__DURABILITY")
    with new_dag():
        with new_job(failures_per_run=0.5, local_bytes="1GB") as job:
            declare("totals", declare("orders").hash("key", durable=True))
    options = plan_of(job).options
    assert options["durability"] == "auto"
    assert (options["failures_per_run"], options["failures_per_day"], options["local_bytes"]) == (0.5, 1.0, 2**30)
    assert [edge.durable for edge in plan_of(job).graph.edges] == [True]


def test_vertices_that_other_tasks_wait_for_and_equal_airflow_arguments_are_told() -> None:
    with new_dag():
        with new_job() as job:
            orders = declare("orders", pool="spark")
            customers = declare("customers", pool="spark", retries=2)
            joined = declare("joined", orders.hash("key"), customers.hash("key"), sql=JOIN, pool="spark")
            totals = declare("totals", joined.hash("key"), execution_timeout=timedelta(hours=1))
            declare("last", totals.hash("key"), execution_timeout=timedelta(hours=1))
            orders >> EmptyOperator(task_id="told")
            customers >> totals
    options = plan_of(job).options
    assert options["ordered"] == ["customers", "orders"]
    assert options["task_arguments"] == {"orders": 0, "customers": 1, "joined": 0, "totals": 2, "last": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"durability": "never"}, "durability is 'never'; expected 'auto' or 'always'"),
        ({"failures_per_run": -1}, "failures_per_run is -1; expected a number of at least 0"),
        ({"failures_per_day": "daily"}, "failures_per_day is 'daily'; expected a number of at least 0"),
        ({"local_bytes": "much"}, "local_bytes is 'much'; expected a size of at least 1 byte"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with new_dag(), pytest.raises(InvalidValueError, match=message):
        new_job(**options)


def test_an_edge_that_cannot_be_kept_inside_is_refused_when_the_file_is_parsed() -> None:
    message = r"orders -> totals.orders \[hash\(key\)\]: durable=False cannot be kept: orders has a sink"
    with new_dag(), pytest.raises(JobGraphError, match=message):
        with new_job():
            orders = declare("orders", sink=Files("/mart/orders"))
            declare("totals", orders.hash("key", durable=False))


@pytest.mark.parametrize("way", ["broadcast", "rebalance", "rescale"])
def test_every_kind_of_edge_says_so(way: str) -> None:
    with new_dag():
        with new_job() as job:
            declare("totals", getattr(declare("orders"), way)(durable=False))
    assert [edge.durable for edge in plan_of(job).graph.edges] == [False]
