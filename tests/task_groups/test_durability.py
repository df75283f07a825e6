"""What a job and its edges say of what is written, and what of it reaches `plan`."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pendulum
import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TriggerRule

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.operators.plan import PlanOperator
from tests.gathered import job_arguments, vertex_arguments

JOIN = "SELECT * FROM {orders} JOIN {customers} USING (key)"


def new_dag() -> DAG:
    return DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))


def declare(name: str, *inputs: Any, **options: Any) -> Any:
    if not inputs:
        return AdaptiveSparkOperator(task_id=name, source=Files(f"/lake/{name}"), **vertex_arguments(options))
    return AdaptiveSparkOperator(
        task_id=name, inputs={edge.producer.task_id: edge for edge in inputs}, **vertex_arguments(options)
    )


def plan_of(job: AdaptiveSparkJob) -> PlanOperator:
    plan = job.children["revenue.plan"]
    assert isinstance(plan, PlanOperator)
    return plan


def new_job(**options: Any) -> AdaptiveSparkJob:
    return AdaptiveSparkJob("revenue", exchange="file:///exchange", **job_arguments(options))


def test_what_decides_reaches_plan_and_is_auto_unless_the_job_or_the_configuration_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AIRFLOW__ADAPTIVE_SPARK__DURABILITY")
    with new_dag():
        with new_job(failures_per_run=0.5, local_bytes="1GB") as job:
            declare("totals", declare("orders").hash("key", durable=True))
    options = plan_of(job).options
    assert options.durability == "auto"
    assert (options.failures_per_run, options.failures_per_day, options.local_bytes) == (0.5, 1.0, 2**30)
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
    declared = plan_of(job).declared
    assert [each.name for each in declared if each.is_awaited] == ["orders", "customers"]
    assert {each.name: each.task for each in declared} == {
        "orders": 0,
        "customers": 1,
        "joined": 0,
        "totals": 2,
        "last": 3,
    }


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
    message = r"orders -> totals.orders \[hash\(key\)\]: durable=False is not possible: orders has a sink"
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


def rules(dag: DAG, *regions: str) -> dict[str, set[str]]:
    """The trigger rules of a region's tasks."""
    tasks = {name: [dag.get_task(f"revenue.{name}.{task}") for task in ("decide", "run")] for name in regions}
    return {name: {TriggerRule(task.trigger_rule).value for task in own} for name, own in tasks.items()}


TOLERANT, STRICT = {"none_failed_min_one_success"}, {"all_success"}


def test_plan_may_skip_what_a_region_reads_but_not_around_tasks_of_the_author() -> None:
    with new_dag() as dag:
        with new_job() as job:
            orders = declare("orders")
            told = declare("told", orders.hash("key"))
            asked = declare("asked", told.hash("key"))
            last = declare("last", asked.hash("key"))
            told >> EmptyOperator(task_id="ask") >> asked
            declare("own_rule", told.hash("key"), trigger_rule="none_failed")
    assert rules(dag, "orders", "told", "asked", "last", "own_rule") == {
        "orders": STRICT,  # nothing is before it
        "told": TOLERANT,
        "asked": STRICT,  # if `ask` is skipped, so is it, and what reads it
        "last": STRICT,
        "own_rule": {"all_success", "none_failed"},
    }
    assert plan_of(job).tasks_of_regions["told"] == ("revenue.told.decide", "revenue.told.run")
    EmptyOperator(task_id="later", dag=dag) >> last
    assert rules(dag, "told") == {"told": TOLERANT}


def test_a_task_that_is_put_before_a_vertex_later_on_makes_it_strict() -> None:
    with new_dag() as dag:
        with new_job():
            last = declare("last", declare("orders").hash("key"))
        assert rules(dag, "last") == {"last": TOLERANT}
        EmptyOperator(task_id="later") >> last
    assert dag.get_task("revenue.last.decide").trigger_rule == TriggerRule.ALL_SUCCESS
