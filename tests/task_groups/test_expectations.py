"""`expect=` and `per_subtask=` on both faces, and the tasks that they make."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs import AdaptiveSparkOperator, Expect, Files, RowCountChange, Unique, VertexOptions
from airflow_abs.core.errors import JobGraphError
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task
from tests.task_groups.test_adaptive_spark import new_dag, new_job, passes

EXPECT = {"of the day": "day = DATE '{{ ds }}'", "one": Unique("id", on_failure="warn")}
PLANNED = [
    {
        "name": "of the day",
        "on_failure": "fail",
        "tolerance": 0.0,
        "condition": "day = DATE '{{ ds }}'",
        "columns": (),
    },
    {"name": "one", "on_failure": "warn", "tolerance": 0.0, "condition": None, "columns": ("id",)},
]


def test_expectations_reach_plan_which_renders_their_templates() -> None:
    with new_dag() as dag, new_job():
        AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), expect=EXPECT)
    plan: Any = dag.get_task("revenue.plan")
    (orders,) = plan.vertices
    assert orders["expectations"] == PLANNED
    assert plan.render_template(orders, {"ds": "2026-01-02"})["expectations"][0]["condition"] == (
        "day = DATE '2026-01-02'"
    )
    assert "vertices" in plan.template_fields


def test_the_taskflow_face_takes_what_the_operator_takes() -> None:
    @adaptive_spark_task(source=Files("/lake/orders"), expect=EXPECT, options=VertexOptions(per_subtask=True))
    def orders(source: Any) -> Any:
        return source

    with new_dag() as dag, new_job():
        orders()
        orders.override(task_id="whole", options=VertexOptions(per_subtask=False))()
    plan: Any = dag.get_task("revenue.plan")
    declared = {each["name"]: (each["expectations"], each["options"]["per_subtask"]) for each in plan.vertices}
    assert declared == {"orders": (PLANNED, True), "whole": (PLANNED, False)}


def test_a_vertex_with_expectations_has_a_commit_which_looks_at_them_and_others_wait_for_it() -> None:
    from tests.task_groups.test_manners import after

    with new_dag() as dag, new_job():
        orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), expect={"positive": "id > 0"})
        AdaptiveSparkOperator(task_id="sums", inputs={"orders": orders.rescale()}, transform=passes)
        orders >> after()
    assert "revenue.orders.commit" in dag.task_ids
    assert "revenue.sums.commit" not in dag.task_ids
    assert set(dag.get_task("revenue.after").upstream_task_ids) == {"revenue.orders.commit"}
    assert "revenue.orders.commit" not in dag.get_task("revenue.sums.decide").upstream_task_ids


def test_a_row_count_is_of_what_is_published() -> None:
    with (
        new_dag(),
        pytest.raises(JobGraphError, match=r"expectation 'usual' \(RowCountChange\) compares published rows"),
    ):
        with new_job():
            AdaptiveSparkOperator(task_id="orders", source=Files("/lake"), expect={"usual": RowCountChange(0.5)})


def test_what_is_no_expectation_is_refused_with_the_vertex() -> None:
    with new_dag(), pytest.raises(JobGraphError, match="vertex 'orders': expectation 'positive' is 1; expected"):
        with new_job():
            AdaptiveSparkOperator(task_id="orders", source=Files("/lake"), expect={"positive": 1})  # type: ignore[dict-item]


def test_a_small_day_keeps_a_vertex_with_expectations_on_its_own() -> None:
    from airflow_abs.core.durability.demands import DeclaredDemands, find_declared

    with new_dag() as dag, new_job():
        orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake"), expect={"positive": Expect("id > 0")})
        checked = AdaptiveSparkOperator(task_id="checked", inputs={"orders": orders.hash("id")})
        AdaptiveSparkOperator(task_id="sums", inputs={"orders": checked.hash("id")}, transform=passes)
    plan: Any = dag.get_task("revenue.plan")
    assert find_declared(plan.graph, DeclaredDemands()) == {
        "orders": "orders has expectations: its readers do not run on rows that fail them"
    }
