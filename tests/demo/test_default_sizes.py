"""What the demo's job would show with default settings on two cores: why the demo's limits are as small as its data."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.region_inputs import RegionOptions
from airflow_abs.core.durability.failures import estimate_mean_times
from airflow_abs.core.durability.prediction import JobHistory, RegionHistory, RunHistory, predict_job
from airflow_abs.core.durability.row_order import DaysBytes, expect_readers
from airflow_abs.core.durability.rule import Conditions, decide_durability
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.joining import join_regions
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.settings import JobSettings

MIB = 2**20
SLOTS = 2
PACE = 33e6
"""Bytes a second of a chain of five steps on two cores, as one operation: 695 MB in 21 s (docs/benchmarks.md)."""
GRAPH = build_job_graph(
    [
        JobVertex("orders", has_source=True),
        JobVertex("customers", has_source=True),
        JobVertex("enriched"),
        JobVertex("by_region", has_sink=True),
    ],
    [
        JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("customer_id",)),
        JobEdge("customers", "enriched", "customers", Partitioning.BROADCAST),
        JobEdge("enriched", "by_region", "enriched", Partitioning.HASH, ("region",)),
    ],
    128,
)


@pytest.mark.parametrize(
    ("orders", "written", "most_subtasks"),
    [
        (3, [], 1),  # the demo's big day
        (500, [], 1),
        (600, ["enriched"], 4),
        (3000, ["orders", "customers"], 4),  # one edge is tried a day
    ],
)
def test_by_default_the_second_day_of_the_demos_job_has_several_tasks_from_600_mb_on(
    orders: int, written: list[str], most_subtasks: int
) -> None:
    sources = {"orders": orders * MIB, "customers": orders * MIB // 8}
    first = RegionHistory(
        tuple(region.name for region in GRAPH.regions), sum(sources.values()), 2000, 5, sum(sources.values()) / PACE
    )
    predictions = predict_job(GRAPH, sources, JobHistory((RunHistory(0.0, (first,)),)), slots=SLOTS)
    settings = JobSettings()
    seconds = sum(each.seconds for each in predictions.values())
    conditions = Conditions(
        estimate_mean_times(seconds).seconds, SLOTS, local_bytes=SLOTS * 2**34, budget=settings.durability_budget
    )
    decided = decide_durability(GRAPH, predictions, conditions)
    assert [each.edge.producer for each in decided if each.durable] == written
    today = join_regions(GRAPH, [each.edge for each in decided if not each.durable]).graph
    bytes_of = DaysBytes({name: each.result_bytes for name, each in predictions.items()}, sources)
    options = RegionOptions(target_bytes=128 * MIB, slots=SLOTS, most_waves=2)
    assert max(expect_readers(region, bytes_of, options) for region in today.regions) == most_subtasks
