"""Inputs that are vertices, not edges: known as such when a DAG is parsed, named by `plan`."""

from __future__ import annotations

from typing import Any

from airflow_abs import AdaptiveSparkOperator, Files, VertexOptions
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task
from tests.task_groups.test_adaptive_spark import new_dag, new_job


def joined(orders: Any, customers: Any, day: str = "") -> Any:
    return orders.join(customers, "customer_id")


def declare(**inputs: Any) -> AdaptiveSparkOperator:
    return AdaptiveSparkOperator(task_id="joined", inputs=inputs, transform=joined)


def source(name: str) -> AdaptiveSparkOperator:
    return AdaptiveSparkOperator(task_id=name, source=Files(f"/lake/{name}"))


def test_a_vertex_as_an_input_is_an_edge_that_plan_names_and_makes_the_tasks_of_a_hash_edge() -> None:
    with new_dag() as bare:
        with new_job():
            vertex = declare(orders=source("orders"), customers=source("customers"))
    with new_dag() as declared:
        with new_job():
            declare(orders=source("orders").hash("customer_id"), customers=source("customers").hash("customer_id"))
    assert {edge.partitioning for edge in vertex.to_edges()} == {Partitioning.INFERRED}
    assert {task.task_id: task.upstream_task_ids for task in bare.tasks} == {
        task.task_id: task.upstream_task_ids for task in declared.tasks
    }
    assert str(vertex.to_edges()[0]) == "orders -> joined.orders [inferred]"


def test_in_taskflow_vertices_are_handed_on_like_values() -> None:
    orders = adaptive_spark_task(lambda orders: orders, source=Files("/lake/orders"), task_id="orders")
    customers = adaptive_spark_task(lambda customers: customers, source=Files("/lake/customers"), task_id="customers")
    with new_dag():
        with new_job():
            vertex = adaptive_spark_task(joined)(orders(), customers(), day="2026-01-01")
    assert [(name, edge.partitioning.value) for name, edge in vertex.inputs.items()] == [
        ("orders", "inferred"),
        ("customers", "inferred"),
    ]
    assert vertex.transform_kwargs == {"day": "2026-01-01"}


def test_with_a_source_the_other_parameters_are_the_inputs() -> None:
    def enriched(source: Any, customers: Any) -> Any:
        return source.join(customers, "customer_id")

    with new_dag():
        with new_job():
            vertex = adaptive_spark_task(enriched, source=Files("/lake/orders"))(source("customers"))
    assert list(vertex.inputs) == ["customers"]


def test_a_declared_join_may_leave_its_keys_to_plan() -> None:
    with new_dag():
        with new_job():
            vertex = AdaptiveSparkOperator(
                task_id="joined",
                inputs={"orders": source("orders"), "customers": source("customers")},
                transform=joined,
                options=VertexOptions(join="inner"),
            )
    assert vertex.options.join == "inner"
