"""What `plan` says of a sink whose layout does not fit the vertex."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex, build_job_graph
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.sinks import check_layouts
from airflow_abs.spark.compile.vertices import compile_vertices
from tests.job_runner import program_of

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def check(session: Any, **sink: Any) -> None:
    graph = build_job_graph([JobVertex("orders", has_source=True, has_sink=True)], [], 8)
    source = Files("/nowhere", schema="id BIGINT, day DATE, at TIMESTAMP, tags MAP<STRING, INT>")
    program = program_of("orders", None, {}, source, Files("/out", **sink))
    check_layouts(compile_vertices(session, graph, {"orders": program}).values())


def test_columns_that_can_name_folders_and_be_sorted_pass(session: Any) -> None:
    check(session, partition_by=["day"], sort_by=["at", "id"])


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        (
            {"partition_by": ["Day"]},
            "partition_by of its sink names 'Day', which its output does not have; its columns",
        ),
        ({"sort_by": ["nothing"]}, "sort_by of its sink names 'nothing', which its output does not have"),
        ({"partition_by": ["tags"]}, "names 'tags', which is map<string,int>; expected strings, numbers, booleans"),
        ({"sort_by": ["tags"]}, "sort_by of its sink names 'tags', which is map<string,int>"),
    ],
)
def test_others_are_refused(session: Any, sink: Any, message: str) -> None:
    with pytest.raises(JobGraphError, match=f"vertex 'orders': .*{message}"):
        check(session, **sink)


def test_something_has_to_be_left_for_the_files(session: Any) -> None:
    graph = build_job_graph([JobVertex("days", has_source=True, has_sink=True)], [], 8)
    sink = Files("/out", partition_by=["day"])
    program = program_of("days", None, {}, Files("/nowhere", schema="day DATE"), sink)
    with pytest.raises(
        JobGraphError, match="its sink is partitioned by all columns of its output, and nothing is left"
    ):
        check_layouts(compile_vertices(session, graph, {"days": program}).values())
