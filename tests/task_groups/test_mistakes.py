"""Mistakes in a DAG file say who, what was found, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, VertexOptions
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.decorators.adaptive_spark import adaptive_spark_task
from tests.gathered import vertex_arguments
from tests.task_groups.test_adaptive_spark import joins, new_dag, new_job, passes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exchange": ""}, "no exchange is set; give AdaptiveSparkJob(exchange="),
        ({"target_bytes": 0}, "target_bytes is 0; expected a size of at least 1 byte, such as 268435456 or '256MB'"),
        ({"target_bytes": "many"}, "target_bytes is 'many'; expected a size"),
        ({"min_parallelism": 9, "max_parallelism": 4}, "min_parallelism is 9, above max_parallelism 4"),
        ({"max_parallelism": 0}, "max_parallelism is 0; expected an integer of at least 1"),
        ({"strategy": "best"}, "strategy is 'best'; expected 'balanced' or 'power_of_two'"),
    ],
)
def test_a_setting_that_makes_no_sense_says_what_is_expected(options: dict[str, Any], message: str) -> None:
    with new_dag(), pytest.raises(InvalidValueError) as caught:
        new_job(**options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source": Files("/x", incremental=True)},
            "vertex 'orders': its source is incremental, and no sink comes after",
        ),
        (
            {"source": Files("/x", incremental=True), "sink": Files("/y")},
            "vertex 'orders': the mode of its sink is 'overwrite', and it depends on the incremental source of "
            "'orders'",
        ),
        (
            {"sink": Files("/y", incremental=True)},
            "vertex 'orders': its sink is declared incremental, which only a source can be; drop it from the sink",
        ),
    ],
)
def test_an_incremental_source_that_cannot_hold_its_promise_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobGraphError) as caught, new_dag(), new_job():
        source(**options)
    assert str(caught.value).startswith(message)


def source(**options: Any) -> AdaptiveSparkOperator:
    return AdaptiveSparkOperator(**vertex_arguments({"task_id": "orders", "source": Files("/lake/orders"), **options}))


a_vertex = adaptive_spark_task(source=Files("/lake/orders"))(passes)


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: source(transform=joins),
            "vertex 'orders': joins(orders, customers, day) does not match inputs ['source'] and transform_kwargs []: "
            "parameters without a value: customers",
        ),
        (
            lambda: source(transform=passes, transform_kwargs={"year": 1}),
            "vertex 'orders': passes(orders) does not match inputs ['source'] and transform_kwargs ['year']: not a "
            "parameter: year",
        ),
        (
            lambda: source(transform=passes, transform_kwargs={"oders": 1}),
            "vertex 'orders': passes(orders) does not match inputs ['source'] and transform_kwargs ['oders']: not a "
            "parameter: oders",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="b", inputs={"order": source().broadcast()}, transform=passes),
            "vertex 'b': passes(orders) does not match inputs ['order'] and transform_kwargs []: parameters without a "
            "value: orders; not a parameter: order; did you mean orders?",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="b", inputs={"orders": a_vertex}, transform=passes),
            "vertex 'b': input 'orders' is the function passes itself; expected another vertex, or a JSON value. A "
            "function that declares a vertex or a task does so when it is called: write passes()",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="b", input={"orders": source()}, transform=passes),
            "vertex 'b': 'input' is neither an argument of a vertex nor of Airflow's tasks; did you mean inputs?",
        ),
        (
            lambda: source(color="red"),
            "vertex 'orders': 'color' is neither an argument of a vertex nor of Airflow's tasks",
        ),
        (
            lambda: source(transform="passes"),
            "vertex 'orders': the transform is 'passes'; expected a function of DataFrames",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="b", inputs={"orders": "orders"}, transform=passes),
            "vertex 'b': input 'orders' is 'orders'; expected another vertex, or an edge of one such as "
            "orders.hash('customer_id')",
        ),
        (
            lambda: AdaptiveSparkOperator(
                task_id="b", source=Files("/x"), inputs={"source": source().broadcast()}, transform=passes
            ),
            "vertex 'b': the input name 'source' is reserved for its own source; rename the input",
        ),
        (
            lambda: AdaptiveSparkOperator(
                task_id="b", inputs={"x": source().broadcast(), "y": source(task_id="o2").broadcast()}
            ),
            "vertex 'b': it has no transform and 2 inputs; only exactly one input, without transform_kwargs, can be "
            "passed on as it is",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="b", inputs={"orders": source().hash()}, transform=passes),
            "vertex 'b': input 'orders' is hash() without keys; name at least one column, or use rescale() or "
            "rebalance()",
        ),
        (lambda: [source(), source()], "vertex 'orders': declared 2 times; give each its own task_id"),
        (
            lambda: AdaptiveSparkOperator(
                task_id="b", inputs={"orders": source(retries=1).forward()}, transform=passes, retries=2
            ),
            "vertex 'b': retries=2 contradicts retries=1 of another vertex of region 'b', and they are "
            "one Airflow task; "
            "set it once",
        ),
        (lambda: None, "the job has no vertex; declare at least one AdaptiveSparkOperator inside it"),
    ],
)
def test_a_mistake_in_a_dag_file_says_who_what_and_what_to_do(declare: Any, message: str) -> None:
    with new_dag(), pytest.raises(JobGraphError) as caught:
        with new_job():
            declare()
    assert str(caught.value) == message


def test_an_edge_of_a_function_that_was_not_called_says_what_to_write() -> None:
    with pytest.raises(
        AttributeError, match=r"^passes is the function that declares a vertex; write passes\(\)\.hash\("
    ):
        a_vertex.hash("id")
    with pytest.raises(AttributeError, match="'VertexFactory' object has no attribute 'color'"):
        a_vertex.color  # noqa: B018


def test_a_vertex_outside_of_a_job_is_refused() -> None:
    with new_dag(), pytest.raises(JobGraphError) as caught:
        source()
    assert str(caught.value) == (
        "vertex 'orders': declared outside of a job; put it inside `with AdaptiveSparkJob(...)`"
    )


def test_a_job_inside_a_job_is_refused() -> None:
    with new_dag(), pytest.raises(JobGraphError, match="declared inside another job"):
        with new_job():
            source()
            with AdaptiveSparkJob("inner", exchange="file:///exchange"):
                pass


def test_an_edge_of_another_job_is_refused() -> None:
    with new_dag():
        with new_job():
            orders = source()
        with pytest.raises(JobGraphError, match=r"is not a vertex of this job|of another job"):
            with AdaptiveSparkJob("second", exchange="file:///exchange"):
                AdaptiveSparkOperator(task_id="b", inputs={"orders": orders.broadcast()}, transform=passes)


def test_unknown_formats_and_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="format is 'xml'; expected one of parquet, csv, json, orc"):
        Files("/x", format="xml")  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match="mode is 'merge'; expected one of overwrite, overwrite_partitions, append, error"
    ):
        Files("/x", mode="merge")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the path is empty"):
        Files("")


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (
            lambda: AdaptiveSparkJob("revenue", exchange="/x", slots=4),
            "job 'revenue': slots belongs in options; write options=JobOptions(slots=...)",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), parallelism=4),
            "vertex 'orders': parallelism belongs in options; write options=VertexOptions(parallelism=...)",
        ),
        (
            lambda: AdaptiveSparkOperator(task_id="orders", options={"parallelism": 4}),  # type: ignore[arg-type]
            "vertex 'orders': options is {'parallelism': 4}; expected VertexOptions(...)",
        ),
        (
            lambda: AdaptiveSparkJob("revenue", exchange="/x", options=VertexOptions()),  # type: ignore[arg-type]
            "job 'revenue': options is VertexOptions(",
        ),
    ],
    ids=["of a job", "of a vertex", "a dict", "of the other"],
)
def test_settings_come_as_one_object(declare: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidValueError) as caught, new_dag():
        declare()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("kind", [AdaptiveSparkJob, AdaptiveSparkOperator])
def test_there_are_at_most_eight_arguments_besides_the_name(kind: type) -> None:
    own = [each for each in inspect.signature(kind.__init__).parameters.values() if each.kind is each.KEYWORD_ONLY]
    assert len([each for each in own if each.name != "task_id"]) <= 8
