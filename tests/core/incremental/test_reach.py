"""Which sinks an incremental source reaches, and what is refused of them."""

from __future__ import annotations

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.incremental.reach import check_incremental_source, sinks_after


def job() -> JobGraph:
    """orders (sink) -> total (sink); customers -> total."""
    vertices = [
        JobVertex("orders", has_source=True, has_sink=True),
        JobVertex("customers", has_source=True),
        JobVertex("total", has_sink=True),
    ]
    edges = [JobEdge(name, "total", name, Partitioning.BROADCAST) for name in ("orders", "customers")]
    return build_job_graph(vertices, edges, 8)


def test_a_source_reaches_its_own_sink_and_all_after_it() -> None:
    assert sinks_after(job(), "orders") == ("orders", "total")
    assert sinks_after(job(), "customers") == ("total",)


def test_a_sink_that_keeps_what_others_published_is_taken() -> None:
    check_incremental_source(job(), "orders", {"orders": "append", "total": "error"})


@pytest.mark.parametrize("mode", ["overwrite", "overwrite_partitions"])
def test_a_sink_that_would_lose_what_is_never_read_again_is_refused(mode: str) -> None:
    with pytest.raises(JobGraphError) as caught:
        check_incremental_source(job(), "customers", {"orders": "append", "total": mode})
    assert str(caught.value) == (
        f"vertex 'total': the mode of its sink is {mode!r}, and it depends on the incremental source of 'customers': a "
        "run would replace output of files that are never read again. Use mode='append', where a repeated run "
        "replaces only its own rows"
    )


def test_a_source_whose_rows_are_published_nowhere_is_refused() -> None:
    alone = build_job_graph([JobVertex("orders", has_source=True)], [], 8)
    with pytest.raises(JobGraphError) as caught:
        check_incremental_source(alone, "orders", {})
    assert str(caught.value) == (
        "vertex 'orders': its source is incremental, and no sink comes after it; files count as read once output made "
        "from them is published: give it, or a vertex after it, a sink with mode='append'"
    )
