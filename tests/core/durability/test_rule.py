"""Which edges are written, and which stay inside Spark."""

from __future__ import annotations

from dataclasses import astuple, replace
from itertools import pairwise
from math import inf, sqrt
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_abs.core.durability.demands import DeclaredDemands, find_declared
from airflow_abs.core.durability.prediction import Prediction
from airflow_abs.core.durability.rule import Conditions, EdgeDurability, ExchangeCosts, decide_durability
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.graph.joining import join_regions
from tests.core.graph.drawn import draw_graph, graph_of
from tests.core.graph.test_joining import check_computed_once

GIB = 2**30
COSTS = ExchangeCosts(hop_seconds=2.0, slot_seconds_per_byte=20 / GIB)


def decide(graph: JobGraph, seconds: dict[str, float], mean: float, **conditions: Any) -> tuple[EdgeDurability, ...]:
    """Every region writes 1 GiB, which costs 2 + 20 / 2 = 12 seconds on two slots."""
    demands = find_declared(graph, DeclaredDemands())
    given = Conditions(mean, slots=2, local_bytes=1000 * GIB, demands=demands, costs=COSTS)
    predictions = {region.name: Prediction(seconds[region.name], GIB, GIB) for region in graph.regions}
    return decide_durability(graph, predictions, replace(given, **conditions))


def durable(decided: tuple[EdgeDurability, ...]) -> str:
    return " ".join(each.edge.producer + each.edge.consumer for each in decided if each.durable)


CHAIN = graph_of("a>b b>c c>d", sinks="d")
MINUTES = {"a": 60.0, "b": 60.0, "c": 60.0, "d": 60.0}


def test_what_rarely_fails_is_not_written() -> None:
    # one from the rest: 60 * 180 / 86,400 = 0.13 s expected; both halves: 120 * 120 / 86,400 = 0.17 s; below 12 s
    decided = decide(CHAIN, MINUTES, 86_400.0)
    assert durable(decided) == ""
    assert [each.reason for each in decided] == [
        "kept inside Spark: writing 1.0 GiB would cost 12 s; a failure here redoes at most 60 s, expected 0.1 s a run",
        "kept inside Spark: writing 1.0 GiB would cost 12 s; a failure here redoes at most 120 s, expected 0.2 s a run",
        "kept inside Spark: writing 1.0 GiB would cost 12 s; a failure here redoes at most 180 s, expected 0.1 s a run",
    ]


def test_what_often_fails_is_written_where_most_would_be_lost() -> None:
    assert durable(decide(CHAIN, MINUTES, 1300.0)) == ""  # both halves in one: 120 * 120 / 1,300 = 11.1 s
    assert durable(decide(CHAIN, MINUTES, 1000.0)) == "bc"  # 14.4 s
    assert durable(decide(CHAIN, MINUTES, 290.0)) == "ab bc cd"  # 60 * 60 / 290 = 12.4 s
    assert decide(CHAIN, MINUTES, 290.0)[0].reason == (
        "durable: writing 1.0 GiB costs 12 s; inside Spark a failure would redo up to 60 s, expected 12 s a run"
    )


def test_over_equal_steps_an_edge_is_written_about_as_often_as_young_says() -> None:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$"  # 64 steps of 10 s
    graph = graph_of(" ".join(f"{one}>{other}" for one, other in pairwise(letters)))
    for mean in (100.0, 300.0, 1000.0, 3000.0):
        written = len(durable(decide(graph, dict.fromkeys(letters, 10.0), mean)).split())
        young = sqrt(2 * 12.0 * mean)
        assert 0.5 <= (640.0 / (written + 1)) / young <= 2.0, (mean, written)


def test_the_issue_s_example() -> None:
    """A write of 10 s; one run in twenty stops, one machine a day fails: none, then some, then nearly all."""
    ten = "abcdefghij"
    graph = graph_of(" ".join(f"{one}>{other}" for one, other in pairwise(ten)))
    written = []
    for job in (150.0, 1200.0, 10_800.0):
        mean = 1 / (1 / (20 * job) + 1 / 86_400)
        found = decide(graph, dict.fromkeys(ten, job / 10), mean, costs=ExchangeCosts(10.0, 0.0))
        written.append(len(durable(found).split()))
    assert written == [0, 1, 9]


def test_a_diamond_is_computed_once_inside_its_last_region() -> None:
    graph = graph_of("a>b a>c b>d c>d", sinks="d")
    assert durable(decide(graph, MINUTES, 86_400.0)) == ""
    # b and c lose 60 * 60 / 250 = 14.4 s: both are written, and what both read with them
    decided = decide(graph, MINUTES, 250.0)
    assert durable(decided) == "ab ac bd cd"
    assert decided[0].reason == "durable: b and c read it, and run apart"


def test_what_has_a_sink_in_the_middle_is_written_and_takes_in_what_comes_before_it() -> None:
    decided = decide(graph_of("a>b b>c c>d", sinks="bd"), MINUTES, inf)
    assert durable(decided) == "bc"
    assert decided[1].reason == "durable: b has a sink"


def test_what_several_last_regions_read_is_written() -> None:
    assert durable(decide(graph_of("a>b a>c", sinks="bc"), MINUTES, inf)) == "ab ac"


def test_a_parallelism_of_the_authors_keeps_a_region_apart_on_both_sides() -> None:
    decided = decide(graph_of("a>b b>c c>d", sinks="d", fixed="b"), MINUTES, inf)
    assert durable(decided) == "ab bc"
    assert decided[0].reason == decided[1].reason == "durable: b has a parallelism of its own"


def test_other_settings_keep_a_region_apart() -> None:
    decided = decide(CHAIN, MINUTES, inf, settings={"a": "pool", "b": "pool", "c": "", "d": ""})
    assert durable(decided) == "bc"
    assert decided[1].reason == (
        "durable: the Airflow arguments or the spark_conf of b differ from those of d, or apply to one of them only"
    )


def test_what_one_operation_could_not_hold_is_written() -> None:
    # an edge's rows are 4 GiB in memory and on disks; two edges may stay inside, a third would be 12 GiB
    decided = decide(CHAIN, MINUTES, inf, local_bytes=8 * GIB)
    assert durable(decided) == "bc"
    assert decided[1].reason == (
        "durable: one operation with d would hold 12.0 GiB in memory and on local disks, above local_bytes 8.0 GiB"
    )


def test_what_the_author_says_of_an_edge_comes_before_the_rule() -> None:
    asked = decide(graph_of("a>b b>c c>d", durable="ab", inside="cd"), MINUTES, 290.0)
    assert durable(asked) == "ab bc"
    assert asked[0].reason == "durable: durable=True on the edge to b"
    assert asked[2].reason == (
        "kept inside Spark: durable=False; writing 1.0 GiB would cost 12 s; a failure here redoes at most 60 s, "
        "expected 12 s a run"
    )
    assert durable(decide(graph_of("a>b b>c c>d", durable="ab"), MINUTES, inf)) == "ab"


def test_narrow_rows_cost_more_than_their_bytes() -> None:
    # 100 million of 1 GiB: 60 slot seconds instead of 20. a with b: 60 * 60 / 290 = 12.4 s, above 12 s and below 32
    predictions = {name: Prediction(60.0, GIB, GIB, True, output_rows=100_000_000) for name in "abcd"}
    conditions = Conditions(290.0, slots=2, local_bytes=1000 * GIB, costs=ExchangeCosts(2.0, 20 / GIB, 0.6e-6))
    decided = decide_durability(CHAIN, predictions, conditions)
    assert durable(decided) == "bc"  # both halves: 120 * 120 / 290 = 49.7 s
    assert decided[0].reason == (
        "kept inside Spark: writing 1.0 GiB in 100,000,000 rows would cost 32 s; a failure here redoes at most 60 s, "
        "expected 12 s a run"
    )
    in_two_results = {name: replace(each, output_rows=50_000_000, results=2) for name, each in predictions.items()}
    assert decide_durability(CHAIN, in_two_results, conditions) == decided
    wide = {name: replace(each, output_rows=1_000_000) for name, each in predictions.items()}
    assert decide_durability(CHAIN, wide, conditions) == decide(CHAIN, MINUTES, 290.0)


def test_a_budget_writes_what_does_not_pay_as_long_as_all_of_it_is_cheap_enough() -> None:
    # 240 s of work; each of three edges costs 12 s, and the middle one saves most
    assert durable(decide(CHAIN, MINUTES, 86_400.0, budget=0.049)) == ""
    assert durable(decide(CHAIN, MINUTES, 86_400.0, budget=0.05)) == "bc"
    assert durable(decide(CHAIN, MINUTES, 86_400.0, budget=0.10)) == "ab bc"
    assert durable(decide(CHAIN, MINUTES, 86_400.0, budget=0.15)) == "ab bc cd"
    assert decide(CHAIN, MINUTES, 86_400.0, budget=0.05)[1].reason == (
        "durable: writing 1.0 GiB costs 12 s of the 12 s that insurance may cost; a failure after it redoes up to "
        "120 s less"
    )


def test_what_has_to_be_written_takes_nothing_of_the_budget() -> None:
    graph = graph_of("a>b b>c c>d", sinks="ad")
    assert durable(decide(graph, MINUTES, inf, budget=0.05)) == "ab bc"
    assert decide(graph, MINUTES, inf, budget=0.05)[0].reason == "durable: a has a sink"


def test_an_edge_that_the_author_keeps_inside_stays_there_whatever_the_budget() -> None:
    assert durable(decide(graph_of("a>b b>c c>d", inside="bc"), MINUTES, inf, budget=1.0)) == "ab cd"


def test_one_cut_a_day_is_tried_and_other_edges_count_as_what_they_may_be() -> None:
    # each may cost 12 s, and is tried for 3 s; the budget is 15 s: in the middle first, and then one of 12 s
    predictions = {name: Prediction(25.0, GIB, GIB, True, is_untried=name != "d") for name in "abcd"}
    conditions = Conditions(inf, slots=2, local_bytes=1000 * GIB, costs=COSTS, budget=0.149)
    decided = decide_durability(CHAIN, predictions, conditions)
    assert durable(decided) == "bc"
    assert [each.reason.partition("; ")[0] for each in decided] == [
        "kept inside Spark: writing 1.0 GiB (at most: it was never written) would cost 12 s, more than the 12 s left "
        "of the 15 s that insurance may cost",
        "durable: writing 102.4 MiB (a guess: it was never written) costs 3.0 s of the 15 s that insurance may cost",
        "kept inside Spark: writing 1.0 GiB (at most: it was never written) would cost 12 s, more than the 12 s left "
        "of the 15 s that insurance may cost",
    ]
    assert durable(decide_durability(CHAIN, predictions, replace(conditions, budget=0.151))) == "ab bc"
    # the day after, b is known to be small, and the next one is tried
    tried = {**predictions, "b": replace(predictions["b"], output_bytes=0, is_untried=False)}
    assert durable(decide_durability(CHAIN, tried, conditions)) == "ab bc"


def test_what_spark_counted_says_so() -> None:
    predictions = {
        name: Prediction(25.0, GIB, 2**20, True, output_rows=1000, is_counted=name == "b") for name in "abcd"
    }
    decided = decide_durability(
        CHAIN, predictions, Conditions(inf, slots=2, local_bytes=1000 * GIB, costs=COSTS, budget=0.021)
    )
    assert decided[1].reason == (
        "durable: writing 1.0 MiB (by the rows that Spark counted: it was never written) costs 2.0 s of the 2.1 s that "
        "insurance may cost; a failure after it redoes up to 50 s less"
    )


def test_what_the_budget_does_not_pay_for_says_what_is_left_of_it() -> None:
    kept = "kept inside Spark: writing 1.0 GiB would cost 12 s"
    none = decide(CHAIN, MINUTES, inf, budget=0.03)
    assert none[1].reason.startswith(f"{kept}, more than the 7.2 s that insurance may cost; a failure here redoes")
    one = decide(CHAIN, MINUTES, inf, budget=0.07)
    assert durable(one) == "bc"
    assert one[0].reason.startswith(f"{kept}, more than the 4.8 s left of the 17 s that insurance may cost; a failure")
    # a to b saves 300 for each second, c to d 30: the order of edges does not depend on the budget
    predictions = {name: Prediction(60.0, GIB, GIB) for name in "ab"}
    predictions |= {"c": Prediction(60.0, GIB, 0), "d": Prediction(1.0, 0, GIB)}
    conditions = Conditions(inf, slots=2, local_bytes=1000 * GIB, costs=COSTS, budget=15 / 181)
    cheap = decide_durability(CHAIN, predictions, conditions)
    assert durable(cheap) == "bc"
    assert cheap[2].reason.startswith(
        "kept inside Spark: writing 0 B would cost 2.0 s (an edge that saves more for its cost comes first, and costs "
        "more than the 3.0 s left of the 15 s that insurance may cost); a failure here redoes"
    )


def test_what_was_never_written_is_taken_for_small_so_that_it_is_tried_once() -> None:
    # it may be 1 GiB, for 12 s; it is taken for a tenth, for 3 s; the budget is 5 s
    predictions = {name: Prediction(25.0, GIB, GIB, True, is_untried=name == "b") for name in "abcd"}
    conditions = Conditions(inf, slots=2, local_bytes=1000 * GIB, costs=COSTS, budget=0.05)
    decided = decide_durability(CHAIN, predictions, conditions)
    assert durable(decided) == "bc"
    assert decided[1].reason == (
        "durable: writing 102.4 MiB (a guess: it was never written) costs 3.0 s of the 5.0 s that insurance may cost; "
        "a failure after it redoes up to 50 s less"
    )
    known = {**predictions, "b": replace(predictions["b"], is_untried=False)}
    assert durable(decide_durability(CHAIN, known, conditions)) == ""


def draw_rows(data: st.DataObject) -> int | None:
    return data.draw(st.none() | st.integers(0, 1000).map(lambda number: number * 100_000))


def draw_day(data: st.DataObject) -> tuple[JobGraph, dict[str, Prediction], Conditions]:
    graph = draw_graph(data)
    numbers = st.integers(0, 1000)
    predictions = {
        region.name: Prediction(
            seconds=data.draw(numbers) / 8,
            input_bytes=0,
            output_bytes=data.draw(numbers) * 2**20,
            output_rows=draw_rows(data),
            is_untried=data.draw(st.booleans()),
        )
        for region in graph.regions
    }
    conditions = Conditions(
        mean_seconds=float(data.draw(st.integers(1, 10_000))),
        slots=2,
        local_bytes=data.draw(st.integers(1, 16)) * GIB,
        demands=find_declared(graph, DeclaredDemands(ordered=data.draw(st.sets(st.sampled_from("abcdefg"))))),
        settings={region.name: data.draw(st.booleans()) for region in graph.regions},
        costs=ExchangeCosts(
            float(data.draw(st.integers(0, 4))),
            data.draw(st.integers(0, 40)) / GIB,
            data.draw(st.integers(0, 10)) / 1e7,
        ),
        budget=data.draw(st.integers(0, 50)) / 100,
    )
    return graph, predictions, conditions


def written(graph: JobGraph, predictions: dict[str, Prediction], conditions: Conditions) -> set[str]:
    return set(durable(decide_durability(graph, predictions, conditions)).split())


@given(st.data())
def test_more_failures_write_no_fewer_edges(data: st.DataObject) -> None:
    graph, predictions, conditions = draw_day(data)
    rarer = replace(conditions, mean_seconds=conditions.mean_seconds * data.draw(st.sampled_from([1.0, 1.5, 4.0, inf])))
    assert written(graph, predictions, rarer) <= written(graph, predictions, conditions)


@given(st.data())
def test_costlier_writes_write_no_more_edges(data: st.DataObject) -> None:
    graph, predictions, conditions = draw_day(data)
    times = data.draw(st.sampled_from([1, 2, 8]))
    costs = ExchangeCosts(*(each * times for each in astuple(conditions.costs)))
    costlier = replace(conditions, costs=costs)
    assert written(graph, predictions, costlier) <= written(graph, predictions, conditions)


@given(st.data())
def test_a_larger_budget_writes_no_fewer_edges(data: st.DataObject) -> None:
    graph, predictions, conditions = draw_day(data)
    larger = replace(conditions, budget=conditions.budget + data.draw(st.integers(0, 50)) / 100)
    assert written(graph, predictions, conditions) <= written(graph, predictions, larger)


@given(st.data())
def test_longer_work_writes_no_fewer_edges(data: st.DataObject) -> None:
    graph, predictions, conditions = draw_day(data)
    times = data.draw(st.sampled_from([1, 2, 8]))
    longer = {name: replace(each, seconds=each.seconds * times) for name, each in predictions.items()}
    assert written(graph, predictions, conditions) <= written(graph, longer, conditions)


@given(st.data())
def test_what_is_written_for_insurance_costs_no_more_than_the_budget(data: st.DataObject) -> None:
    check_within_budget(*draw_day(data))


@pytest.mark.slow
@settings(max_examples=500)
@given(st.data(), st.integers(0, 2**32))
def test_of_ten_thousand_drawn_jobs_none_costs_more_than_its_budget(data: st.DataObject, seed: int) -> None:
    graph, drawn = draw_graph(data), Random(seed)  # noqa: S311 - numbers of a test
    for _ in range(20):
        predictions = {
            region.name: Prediction(
                seconds=drawn.lognormvariate(2, 2),
                input_bytes=0,
                output_bytes=int(drawn.lognormvariate(18, 3)),
                output_rows=drawn.choice([None, int(drawn.lognormvariate(14, 3))]),
                is_untried=drawn.random() < 0.3,
            )
            for region in graph.regions
        }
        conditions = Conditions(
            mean_seconds=drawn.lognormvariate(8, 2),
            slots=drawn.choice([1, 2, 8, 64]),
            local_bytes=int(drawn.lognormvariate(24, 2)),
            demands=find_declared(graph, DeclaredDemands()),
            budget=drawn.choice([0.0, 0.05, 0.15, 0.5]),
        )
        check_within_budget(graph, predictions, conditions)


def check_within_budget(graph: JobGraph, predictions: dict[str, Prediction], conditions: Conditions) -> None:
    decided = decide_durability(graph, predictions, conditions)
    reasons = {graph.region_of(each.edge.producer).name: each.reason for each in decided}
    seconds = [
        conditions.costs.seconds(
            round(of.output_bytes / 10) if "(a guess: " in why else of.output_bytes,
            conditions.slots,
            (of.output_rows or 0) * of.results,
        )
        for of, why in ((predictions[name], why) for name, why in reasons.items())
        if why.startswith("durable: ") and "that insurance may cost" in why
    ]
    assert sum(seconds) <= conditions.budget * sum(each.seconds for each in predictions.values()) + 1e-6


@given(st.data())
def test_whatever_is_kept_inside_gives_a_graph_in_which_every_vertex_is_computed_once(data: st.DataObject) -> None:
    graph, predictions, conditions = draw_day(data)
    decided = decide_durability(graph, predictions, conditions)
    inside = [each.edge for each in decided if not each.durable]
    joined = join_regions(graph, inside)
    check_computed_once(graph, joined, inside)
    # one way out of every joined region: its last one's
    for region in joined.graph.regions:
        out = {graph.region_of(edge.producer).name for edge in graph.edges if edge.producer in region.vertices
               and edge.consumer not in region.vertices}  # fmt: skip
        assert out <= {region.name}
    for each in decided:
        assert each.durable == joined.graph.crosses_regions(
            next(edge for edge in joined.graph.edges if (edge.producer, edge.consumer, edge.input_name)
                 == (each.edge.producer, each.edge.consumer, each.edge.input_name))
        )  # fmt: skip


@pytest.mark.parametrize("mean", [1.0, 60.0, inf])
def test_an_empty_day_costs_the_hops_alone(mean: float) -> None:
    assert ExchangeCosts().seconds(0, 2) == 2.5
    assert durable(decide(CHAIN, dict.fromkeys("abcd", 0.0), mean)) == ""
