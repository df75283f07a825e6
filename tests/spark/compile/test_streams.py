"""Streams have no end, and a vertex must have one."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobVertex, build_job_graph
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark.compile.vertices import compile_vertices
from tests.job_runner import program_of

pytestmark = [pytest.mark.spark, pytest.mark.sample]


def joined_with_a_stream(orders: Any) -> Any:
    rates = orders.sparkSession.readStream.format("rate").load()
    return rates.join(orders, rates.value == orders.id).select("id")


def test_a_transform_that_reads_a_stream_is_refused_with_what_to_write(session: Any) -> None:
    graph = build_job_graph([JobVertex("orders", has_source=True, has_sink=True)], [], 8)
    program = program_of("orders", joined_with_a_stream, {}, Files("/lake", schema="id BIGINT"), Files("/mart"))
    with pytest.raises(JobGraphError) as caught:
        compile_vertices(session, graph, {"orders": program})
    assert str(caught.value) == (
        "vertex 'orders': its transform reads a stream (readStream), which has no end, and a subtask reads what is "
        "there; give it source=Files(..., incremental=True), which gives each run the new files"
    )
