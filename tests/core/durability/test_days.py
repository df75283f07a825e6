"""Day after day: what a run took corrects what the next one writes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_abs.core.durability.demands import DaysDemands, DeclaredDemands, find_demands
from airflow_abs.core.durability.failures import estimate_mean_times
from airflow_abs.core.durability.prediction import (
    JobHistory,
    PassedHistory,
    Prediction,
    RegionHistory,
    RunHistory,
    predict_job,
)
from airflow_abs.core.durability.rule import Conditions, EdgeDurability, decide_durability
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.graph.joining import join_regions
from tests.core.durability.test_rule import check_within_budget
from tests.core.graph.drawn import draw_graph, graph_of

GIB = 2**30
BUDGET = 0.15


@dataclass(frozen=True)
class Day:
    """What `plan` decides on a day."""

    graph: JobGraph
    predictions: dict[str, Prediction]
    conditions: Conditions
    decided: tuple[EdgeDurability, ...]

    @property
    def written(self) -> set[str]:
        return {each.edge.producer for each in self.decided if each.durable}

    @property
    def operations(self) -> list[tuple[str, ...]]:
        into = join_regions(self.graph, [each.edge for each in self.decided if not each.durable]).into
        found: dict[str, list[str]] = {}
        for region in self.graph.regions:
            home = region.name
            while home in into:
                home = into[home]
            found.setdefault(home, []).append(region.name)
        return [tuple(names) for names in found.values()]

    @property
    def cost_share(self) -> float:
        """What all written edges cost, of the predicted seconds."""
        costs, slots = self.conditions.costs, self.conditions.slots
        cost = sum(costs.seconds(self.predictions[name].output_bytes, slots) for name in self.written)
        return cost / sum(each.seconds for each in self.predictions.values())

    def run(self, took: dict[str, float], size: int, number: int) -> RunHistory:
        """Every step writes what it reads. Of steps inside an operation Spark tells seconds, rows and bytes."""
        inside = [name for names in self.operations if len(names) > 1 for name in names]
        ran = (
            RegionHistory(
                names,
                bytes_in=size,
                bytes_out=size,
                rows=1000,
                seconds=sum(took[name] for name in names),
                predicted_seconds=sum(self.predictions[name].seconds for name in names),
            )
            for names in self.operations
        )
        return RunHistory(
            float(number),
            tuple(ran),
            spent={name: took[name] for name in inside},
            passed={name: PassedHistory(1000, bytes=size * 4) for name in inside},
        )


def plan_day(graph: JobGraph, size: int, history: JobHistory, slots: int) -> Day:
    sources = {vertex.name: size for vertex in graph.vertices if not graph.inputs_of(vertex.name)}
    predictions = dict(predict_job(graph, sources, history, slots=slots))
    mean = estimate_mean_times(sum(each.seconds for each in predictions.values()), history).seconds
    demands = find_demands(graph, DeclaredDemands(), DaysDemands(predictions, 2**27, 1, history))
    conditions = Conditions(mean, slots=slots, local_bytes=1000 * GIB, demands=demands, budget=BUDGET)
    return Day(graph, predictions, conditions, decide_durability(graph, predictions, conditions))


def plan_days(graph: JobGraph, took: dict[str, float], sizes: list[int], slots: int) -> list[Day]:
    """One after the other; a day of twice the bytes takes twice as long."""
    days, history = list[Day](), JobHistory()
    for number, size in enumerate(sizes):
        days.append(plan_day(graph, size, history, slots))
        scaled = {name: seconds * size / sizes[0] for name, seconds in took.items()}
        history = JobHistory((*history.runs, days[-1].run(scaled, size, number)))
    return days


@pytest.mark.parametrize("costly", [-1, 4], ids=["the last", "in the middle"])
@pytest.mark.parametrize(
    ("steps", "costly_seconds", "seconds", "gib", "slots"),
    [(8, 60.0, 5.0, 0.3, 2), (8, 300.0, 10.0, 0.7, 2), (12, 600.0, 20.0, 1.0, 4)],
)
def test_a_late_costly_step_is_found_on_day_two_and_thirty_days_stay_within_the_budget(
    steps: int, costly_seconds: float, seconds: float, gib: float, slots: int, costly: int
) -> None:
    names = "abcdefghijkl"[:steps]
    graph = graph_of(" ".join(f"{one}>{other}" for one, other in pairwise(names)))
    took = dict.fromkeys(names, seconds) | {names[costly]: costly_seconds}
    drawn = Random(steps)  # noqa: S311 - sizes of days
    sizes = [int(gib * GIB), *(int(gib * GIB * drawn.choice([0.8, 1.0, 1.2])) for _ in range(29))]
    first, *others = plan_days(graph, took, sizes, slots)
    assert next(len(each) for each in first.operations if names[costly] in each) > 1
    for day in others:
        assert names[names.index(names[costly]) - 1] in day.written  # a failure of it repeats nothing before it
        assert day.cost_share <= BUDGET  # none of these edges pays by itself


def test_one_strange_day_is_forgotten_after_two_more() -> None:
    graph, took = graph_of("a>b b>c c>d"), dict.fromkeys("abcd", 20.0)
    history = JobHistory()
    predicted = []
    for number in range(6):
        day = plan_day(graph, GIB, history, 2)
        predicted.append(sum(each.seconds for each in day.predictions.values()))
        slow = {name: seconds * (10 if number == 2 else 1) for name, seconds in took.items()}
        history = JobHistory((*history.runs, day.run(slow, GIB, number)))
    assert predicted[2] == pytest.approx(80.0)
    assert predicted[3] > 400.0
    assert predicted[5] == pytest.approx(80.0)


@pytest.mark.slow
@settings(max_examples=350)
@given(st.data(), st.integers(0, 2**32))
def test_ten_thousand_drawn_days_stay_within_the_budget_after_wrong_predictions_too(
    data: st.DataObject, seed: int
) -> None:
    graph, drawn = draw_graph(data), Random(seed)  # noqa: S311 - numbers of a test
    took = {region.name: drawn.lognormvariate(2, 2) for region in graph.regions}
    size, history = int(drawn.lognormvariate(19, 2)), JobHistory()
    for number in range(30):
        day = plan_day(graph, size, history, 2)
        check_within_budget(graph, day.predictions, day.conditions)
        wrong = drawn.choice([1.0, 1.0, 1.0, 5.0])
        history = JobHistory(
            (*history.runs, day.run({name: of * wrong for name, of in took.items()}, max(1, size), number))
        )
