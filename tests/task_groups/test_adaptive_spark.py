from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG, task

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task
from tests.gathered import job_arguments


def passes(orders: Any) -> Any:
    return orders


def joins(orders: Any, customers: Any, day: str = "") -> Any:
    return orders.join(customers, "customer_id")


def new_dag(**options: Any) -> DAG:
    return DAG("daily", schedule="@daily", start_date=pendulum.datetime(2026, 1, 1, tz="UTC"), catchup=False, **options)


def new_job(**options: Any) -> AdaptiveSparkJob:
    return AdaptiveSparkJob("revenue", **job_arguments({"exchange": "file:///exchange", **options}))


def declare_revenue() -> None:
    orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), transform=passes)
    customers = AdaptiveSparkOperator(task_id="customers", source=Files("/lake/customers"))
    AdaptiveSparkOperator(
        task_id="enriched",
        inputs={"orders": orders.hash("customer_id"), "customers": customers.broadcast()},
        transform=joins,
        transform_kwargs={"day": "{{ ds }}"},
        sink=Files("/mart/revenue/ds={{ ds }}"),
        pool="spark",
        retries=5,
    )


def test_every_region_becomes_decide_and_run_and_a_sink_a_commit() -> None:
    with new_dag() as dag:
        with new_job():
            declare_revenue()
    assert sorted(dag.task_ids) == [
        "revenue.customers.decide",
        "revenue.customers.run",
        "revenue.enriched.commit",
        "revenue.enriched.decide",
        "revenue.enriched.run",
        "revenue.orders.decide",
        "revenue.orders.run",
        "revenue.plan",
        "revenue.release",
    ]
    assert dag.get_task("revenue.enriched.run").upstream_task_ids == {
        "revenue.orders.run",
        "revenue.customers.run",
        "revenue.enriched.decide",
    }
    assert dag.get_task("revenue.enriched.decide").upstream_task_ids == {
        "revenue.orders.run",
        "revenue.customers.run",
        "revenue.plan",
    }
    assert dag.get_task("revenue.release").is_teardown


def test_airflows_own_arguments_reach_the_mapped_task_only() -> None:
    with new_dag() as dag:
        with new_job():
            declare_revenue()
    run = dag.get_task("revenue.enriched.run").partial_kwargs
    assert (run["pool"], run["retries"]) == ("spark", 5)
    assert dag.get_task("revenue.enriched.decide").pool == "default_pool"
    assert dag.get_task("revenue.enriched.decide").admission == "bound"
    assert dag.get_task("revenue.orders.decide").admission == "queue"


def test_subtasks_are_retried_unless_the_author_says_otherwise() -> None:
    with new_dag() as dag:
        with new_job():
            declare_revenue()
    assert dag.get_task("revenue.orders.run").partial_kwargs["retries"] == 4
    with new_dag(default_args={"retries": 0}) as dag:
        with new_job():
            declare_revenue()
    assert dag.get_task("revenue.orders.run").partial_kwargs["retries"] == 0


def test_a_job_is_one_node_in_the_dag() -> None:
    @task
    def before() -> None: ...

    @task
    def after() -> None: ...

    with new_dag() as dag:
        with new_job() as revenue:
            declare_revenue()
        before() >> revenue >> after()
    assert dag.get_task("before").downstream_task_ids == {"revenue.plan"}
    assert dag.get_task("after").upstream_task_ids == {"revenue.enriched.commit"}


def test_the_sinks_folder_above_its_templates_is_the_asset() -> None:
    with new_dag() as dag:
        with new_job():
            declare_revenue()
    assert [outlet.uri for outlet in dag.get_task("revenue.enriched.commit").outlets] == ["file:///mart/revenue"]


def test_vertices_tied_by_forward_edges_are_one_mapped_task() -> None:
    with new_dag() as dag:
        with new_job():
            orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
            AdaptiveSparkOperator(task_id="priced", inputs={"orders": orders.forward()}, transform=passes)
    assert [name for name in dag.task_ids if name.endswith(".run")] == ["revenue.priced.run"]


def test_a_rescale_edge_goes_through_the_exchange_and_names_no_key() -> None:
    with new_dag() as dag:
        with new_job():
            orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
            copy = AdaptiveSparkOperator(task_id="copy", inputs={"orders": orders.rescale()}, transform=passes)
    assert copy.to_edges() == [JobEdge("orders", "copy", "orders", Partitioning.RESCALE)]
    assert {"revenue.orders.run", "revenue.copy.run"} <= set(dag.task_ids)


def test_the_taskflow_face_declares_the_same_job() -> None:
    enriched = adaptive_spark_task(joins, task_id="enriched", sink=Files("/mart/revenue/ds={{ ds }}"))
    orders = adaptive_spark_task(source=Files("/lake/orders"), task_id="orders")(passes)
    with new_dag() as dag:
        with new_job():
            customers = AdaptiveSparkOperator(task_id="customers", source=Files("/lake/customers"))
            enriched(orders().hash("customer_id"), customers=customers.broadcast(), day="{{ ds }}")
    plan = dag.get_task("revenue.plan")
    assert [vertex.name for vertex in plan.graph.vertices] == ["customers", "orders", "enriched"]
    assert {each.name: each.transform_kwargs for each in plan.declared}["enriched"] == {"day": "{{ ds }}"}
    assert plan.transforms == {"customers": None, "orders": passes, "enriched": joins}


def test_airflow_knows_the_decorator() -> None:
    assert task.adaptive_spark is adaptive_spark_task


def test_job_arguments_win_over_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__TARGET_BYTES", "256MB")
    monkeypatch.setenv("AIRFLOW__ADAPTIVE_SPARK__MAX_PARALLELISM", "16")
    with new_dag() as dag:
        with new_job(max_parallelism=8):
            declare_revenue()
    options = dag.get_task("revenue.plan").options
    assert (options.target_bytes, options.max_parallelism) == (256 * 1024 * 1024, 8)


IN_A_NEW_PROCESS = """
import json, sys
from airflow_abs.airflow_abilities import DagBag
from tests.dag_serialization import DagSerialization


bag = DagBag(sys.argv[1])
assert not bag.import_errors, bag.import_errors


dags = {name: DagSerialization.to_dict(dag) for name, dag in sorted(bag.dags.items())}
for serialised in dags.values():
    DagSerialization.from_dict(serialised)
print(json.dumps(dags, sort_keys=True))
"""


@pytest.mark.slow
def test_the_serialised_form_of_the_example_dags_is_the_same_in_two_processes(airflow_environment: Any) -> None:
    first, second = (
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", IN_A_NEW_PROCESS, airflow_environment.dags],
            env={**airflow_environment.variables, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.splitlines()[-1]
        for seed in ("1", "2")
    )
    assert first == second
    assert sorted(json.loads(first)) == ["daily_revenue", "diamond", "iceberg_revenue", "pipelined", "taskflow_revenue"]
