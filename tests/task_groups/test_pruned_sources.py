"""`prune=` of a source as a DAG file declares it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.sources.pruned_by import VertexColumn


def declare(prune: Any = None, tie: Any = None, **arguments: Any) -> Any:
    with DAG("d") as dag, AdaptiveSparkJob("job", exchange="/tmp/x"):
        dates = AdaptiveSparkOperator(task_id="dates", source=Files("/lake/dates"))
        by = {"day": dates.column("d")} if prune is None else prune
        inputs = {"dates": tie(dates)} if tie else {}
        AdaptiveSparkOperator(
            task_id="sales",
            source=Files("/lake/sales", prune=by),
            inputs=inputs,
            transform=_join if tie else None,
            **arguments,
        )
    return dag


def _join(source: Any, dates: Any) -> Any:
    return source


def test_the_source_is_decided_after_the_vertex_that_has_the_values() -> None:
    dag = declare()
    plan = dag.get_task("job.plan")
    assert plan.graph.edges == (
        JobEdge("dates", "sales", "prune.day", Partitioning.BROADCAST, durable=True, prunes=("day", "d")),
    )
    assert "job.dates.run" in dag.get_task("job.sales.decide").upstream_task_ids
    sales = next(each for each in plan.declared if each.name == "sales")
    assert sales.source["prune"] == {"day": {"vertex": "dates", "column": "d"}}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"prune": {"day": VertexColumn("dayz", "d")}},
            r"vertex 'sales': input 'prune.day' comes from 'dayz', which is not a vertex of this job",
        ),
        (
            {"tie": lambda dates: dates.broadcast(pipelined=True)},
            r"vertex 'sales': its source is pruned by dates\.d, and both run as one region, so the values are not "
            r"known in advance; make the edges between dates and sales blocking",
        ),
        (
            {"sink": Files("/mart/sales", prune={"day": VertexColumn("dates", "d")})},
            "vertex 'sales': its sink is declared with prune=, which only a source can have; drop it from the sink",
        ),
        ({"prune": {"day": VertexColumn("sales", "d")}}, "the job has a cycle among sales"),
    ],
)
def test_values_that_cannot_be_there_before_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(JobGraphError, match=message):
        declare(**arguments)


def test_a_vertex_of_another_job_is_not_taken_for_its_namesake() -> None:
    with DAG("d"):
        with AdaptiveSparkJob("first", exchange="/tmp/x"):
            other = AdaptiveSparkOperator(task_id="dates", source=Files("/lake/other"))
        message = (
            "^vertex 'dates': its column 'd' is asked for outside of its job; expected inside, for a source of the "
            r"same job; elsewhere read that job's sink with Files\(...\), and prune by that vertex$"
        )
        with AdaptiveSparkJob("second", exchange="/tmp/x"):
            AdaptiveSparkOperator(task_id="dates", source=Files("/lake/dates"))
            with pytest.raises(JobGraphError, match=message):
                other.column("d")
