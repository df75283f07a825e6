"""Day after day: what a run took corrects what the next one writes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from airflow_abs.core.durability.demands import DaysDemands, DeclaredDemands, find_demands
from airflow_abs.core.durability.failures import estimate_mean_times
from airflow_abs.core.durability.prediction import JobHistory, RegionHistory, RunHistory, predict_job
from airflow_abs.core.durability.rule import Conditions, decide_durability
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.graph.joining import join_regions
from tests.core.graph.drawn import graph_of

GIB = 2**30


def run_day(
    graph: JobGraph, took: dict[str, float], size: int, history: JobHistory, slots: int
) -> tuple[dict[str, list[str]], JobHistory]:
    """The day's operations by their last region, and the history with that day; every step writes what it reads."""
    predictions = predict_job(graph, {"a": size}, history, slots=slots)
    mean = estimate_mean_times(sum(each.seconds for each in predictions.values()), history).seconds
    demands = find_demands(graph, DeclaredDemands(), DaysDemands(predictions, 2**27, 1, history))
    conditions = Conditions(mean, slots=slots, local_bytes=1000 * GIB, demands=demands, budget=0.15)
    decided = decide_durability(graph, predictions, conditions)
    into = join_regions(graph, [each.edge for each in decided if not each.durable]).into
    operations: dict[str, list[str]] = {}
    for region in graph.regions:
        operations.setdefault(into.get(region.name, region.name), []).append(region.name)
    seen = [
        RegionHistory(
            tuple(names),
            bytes_in=size,
            bytes_out=size,
            rows=1000,
            seconds=sum(took[name] for name in names),
            predicted_seconds=sum(predictions[name].seconds for name in names),
        )
        for names in operations.values()
    ]
    return operations, JobHistory((*history.runs, RunHistory(float(len(history.runs)), tuple(seen))))


@pytest.mark.parametrize("costly", [-1, 4], ids=["the last", "in the middle"])
@pytest.mark.parametrize(
    ("steps", "costly_seconds", "seconds", "gib", "slots"),
    [(8, 60.0, 5.0, 0.3, 2), (8, 300.0, 10.0, 0.7, 2), (12, 600.0, 20.0, 1.0, 4)],
)
def test_a_step_that_costs_far_more_than_the_others_runs_apart_on_day_two(
    steps: int, costly_seconds: float, seconds: float, gib: float, slots: int, costly: int
) -> None:
    names = "abcdefghijkl"[:steps]
    graph = graph_of(" ".join(f"{one}>{other}" for one, other in pairwise(names)))
    took = dict.fromkeys(names, seconds) | {names[costly]: costly_seconds}
    first, history = run_day(graph, took, int(gib * GIB), JobHistory(), slots)
    assert len(next(each for each in first.values() if names[costly] in each)) > 1
    for _ in range(5):
        operations, history = run_day(graph, took, int(gib * GIB), history, slots)
        assert operations[names[costly]] == [names[costly]]
