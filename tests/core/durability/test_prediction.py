"""What a day is predicted to take and to write."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.durability.prediction import (
    JobHistory,
    PassedHistory,
    Prediction,
    PredictionDefaults,
    RegionHistory,
    RunHistory,
    predict_job,
)
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.job_graph import JobEdge, JobGraph, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

MIB = 2**20
DEFAULTS = PredictionDefaults(fixed_seconds=1.0, bytes_per_second=10 * MIB, output_ratio=0.5)


def joined() -> JobGraph:
    return build_job_graph(
        [JobVertex("orders", has_source=True), JobVertex("customers", has_source=True), JobVertex("joined")],
        [
            JobEdge("orders", "joined", "orders", Partitioning.HASH, ("key",)),
            JobEdge("customers", "joined", "customers", Partitioning.BROADCAST),
        ],
        8,
    )


def seen(bytes_in: int, bytes_out: int, seconds: float, *regions: str) -> RegionHistory:
    """Rows of eight bytes are written."""
    return RegionHistory(regions, bytes_in, bytes_out, rows=bytes_out // 8, seconds=seconds)


def test_without_history_bytes_and_seconds_follow_from_the_sources() -> None:
    found = predict_job(joined(), {"orders": 200 * MIB, "customers": 20 * MIB}, defaults=DEFAULTS, slots=2)
    assert found == {
        "orders": Prediction(11.0, 200 * MIB, 100 * MIB),  # 1 + 200 / (2 * 10)
        "customers": Prediction(2.0, 20 * MIB, 10 * MIB),
        "joined": Prediction(6.5, 110 * MIB, 55 * MIB),  # 1 + (100 + 10) / (2 * 10)
    }


def test_earlier_runs_in_which_a_region_ran_alone_say_how_it_is_to_the_defaults() -> None:
    # 1 + 100 / 20 = 6 seconds by default: twice, twice and ten times as long, so twice; a tenth of it is written
    history = JobHistory(
        tuple(RunHistory(day, (seen(100 * MIB, 10 * MIB, took, "orders"),)) for day, took in enumerate((12, 12, 60)))
    )
    found = predict_job(joined(), {"orders": 200 * MIB}, history, DEFAULTS, slots=2)
    assert found["orders"] == Prediction(22.0, 200 * MIB, 20 * MIB, True, output_rows=20 * MIB // 8)
    assert found["joined"] == Prediction(2.0, 20 * MIB, 10 * MIB)


def test_regions_that_only_ran_as_one_operation_share_its_seconds() -> None:
    # 1 + 100 / 20 = 6 seconds by default for what the operation reads, and it took 18: three times. Today it reads
    # 300 MiB: 3 * (1 + 300 / 20) = 48 seconds, where the defaults of the three are 11 + 6 + 8.5 = 25.5
    group = ("orders", "customers", "joined")
    history = JobHistory((RunHistory(0.0, (seen(100 * MIB, 10 * MIB, 18.0, *group),)),))
    found = predict_job(joined(), {"orders": 200 * MIB, "customers": 100 * MIB}, history, DEFAULTS, slots=2)
    assert {name: round(each.seconds, 3) for name, each in found.items()} == {
        "orders": round(48 * 11 / 25.5, 3),
        "customers": round(48 * 6 / 25.5, 3),
        "joined": round(48 * 8.5 / 25.5, 3),
    }
    # the last one writes a tenth of what the operation reads; what the others would write nobody knows
    assert [each.output_bytes for each in found.values()] == [100 * MIB, 50 * MIB, 30 * MIB]
    assert [each.output_rows for each in found.values()] == [None, None, 30 * MIB // 8]
    assert all(each.from_history for each in found.values())


def test_rows_that_spark_counted_inside_an_operation_say_what_an_edge_would_carry() -> None:
    # the operation read 100 MiB on each day, and today it reads 200 + 100: of everything three times as much
    group = ("orders", "customers", "joined")
    days = (
        {"orders": PassedHistory(1_000_000, bytes=80 * MIB), "customers": PassedHistory(10_000)},
        {"orders": PassedHistory(2_000_000, bytes=40 * MIB), "customers": PassedHistory(30_000)},
        {},  # nothing was counted
    )
    history = JobHistory(
        tuple(
            RunHistory(number, (seen(100 * MIB, MIB, 18.0, *group),), passed=passed)
            for number, passed in enumerate(days)
        )
    )
    sources = {"orders": 200 * MIB, "customers": 100 * MIB}
    found = predict_job(joined(), sources, history, DEFAULTS, slots=2, row_bytes={"orders": 1000, "customers": 50})
    # 60 MiB that Spark shuffled in the median are 15 MiB as Parquet; 20,000 rows that it did not shuffle have 50 bytes
    assert [found[name].output_bytes for name in group[:2]] == [45 * MIB, 3_000_000]
    assert [found[name].output_rows for name in group[:2]] == [4_500_000, 60_000]
    assert [found[name].is_counted for name in group] == [True, True, False]
    assert found["joined"].input_bytes == 45 * MIB + 3_000_000
    assert not any(each.is_untried for each in found.values())


def test_rows_that_the_reader_groups_are_written_as_partial_results() -> None:
    group = ("orders", "customers", "joined")
    passed = {"orders": PassedHistory(1_000_000, partial_results=200), "customers": PassedHistory(10_000)}
    history = JobHistory((RunHistory(0.0, (seen(100 * MIB, MIB, 18.0, *group),), passed=passed),))
    today = {"orders": 50 * MIB, "customers": 50 * MIB}
    found = predict_job(joined(), today, history, DEFAULTS, row_bytes={"orders": 10.0})
    assert (found["orders"].output_rows, found["orders"].output_bytes) == (200, 2000)
    twice = RunHistory(1.0, (seen(100 * MIB, 40 * MIB, 12.0, "orders"),))  # a day on which it was written counts more
    known = predict_job(joined(), today, JobHistory((*history.runs, twice)), DEFAULTS)["orders"]
    assert (known.output_bytes, known.is_counted) == (20 * MIB, False)


def test_rows_of_an_edge_that_is_cut_in_two_ways_are_in_both_results() -> None:
    group = ("orders", "by_0", "by_1")
    passed = {"orders": PassedHistory(1000, bytes=400_000)}
    history = JobHistory((RunHistory(0.0, (seen(MIB, MIB, 12.0, *group),), passed=passed),))
    found = predict_job(read_twice("customer", "region"), {"orders": MIB}, history, DEFAULTS)["orders"]
    assert (found.output_rows, found.output_bytes, found.results) == (1000, 200_000, 2)


def test_a_region_that_also_ran_alone_keeps_what_is_known_of_it() -> None:
    runs = (seen(100 * MIB, 10 * MIB, 18.0, "orders", "customers", "joined"), seen(100 * MIB, MIB, 12.0, "orders"))
    history = JobHistory(tuple(RunHistory(day, (region,)) for day, region in enumerate(runs)))
    found = predict_job(joined(), {"orders": 200 * MIB}, history, DEFAULTS, slots=2)
    twice = Prediction(22.0, 200 * MIB, 2 * MIB, True, output_rows=2 * MIB // 8)  # twice 1 + 200 / 20
    assert found["orders"] == twice
    # 3 * 11 = 33 for all: 11 remain for the two others, whose defaults are 1 and 1 + 2 / 20
    assert found["customers"].seconds + found["joined"].seconds == pytest.approx(11.0, rel=0.2)


def test_regions_inside_an_operation_share_its_seconds_as_its_stages_did() -> None:
    # as above 48 seconds today; the stages worked 9, 3 and 6 of 18 seconds, and on a second day 12, 3 and 3
    group = ("orders", "customers", "joined")
    days = [{"orders": 9.0, "customers": 3.0, "joined": 6.0}, {"orders": 12.0, "customers": 3.0, "joined": 3.0}]
    runs = [RunHistory(float(day), (seen(100 * MIB, MIB, 18.0, *group),), spent=told) for day, told in enumerate(days)]
    today = {"orders": 200 * MIB, "customers": 100 * MIB}
    for number, expected in ((1, [24.0, 8.0, 16.0]), (2, [28.0, 8.0, 12.0])):
        found = predict_job(joined(), today, JobHistory(tuple(runs[:number])), DEFAULTS, slots=2)
        assert [round(found[name].seconds, 3) for name in group] == expected
    # what is known of `orders` alone is left out of what the others share: 48 - 11 = 37 seconds, 3 to 6
    alone = RunHistory(9.0, (seen(100 * MIB, MIB, 6.0, "orders"),))
    found = predict_job(joined(), today, JobHistory((runs[0], alone)), DEFAULTS, slots=2)
    assert [round(found[name].seconds, 1) for name in group] == [11.0, 12.3, 24.7]


def took(seconds: float, planned: float | None, *regions: str) -> RegionHistory:
    return replace(seen(100 * MIB, MIB, seconds, *regions), predicted_seconds=planned)


def test_only_runs_since_a_prediction_proved_far_too_low_say_what_a_region_takes() -> None:
    slow = [took(seconds, 6.0, "orders") for seconds in (6.0, 6.0, 6.0, 60.0)]  # 60 is above 2 * 6 + 10
    history = JobHistory(tuple(RunHistory(float(day), (each,)) for day, each in enumerate(slow)))
    found = predict_job(joined(), {"orders": 100 * MIB}, history, DEFAULTS, slots=2)["orders"]
    assert (found.seconds, found.output_bytes) == (60.0, MIB)


@pytest.mark.parametrize(
    "last",
    [
        took(22.0, 6.0, "orders"),
        took(60.0, None, "orders"),
        replace(took(60.0, 6.0, "orders"), machine_failures=1),
        replace(took(60.0, 6.0, "orders"), is_whole=False),
    ],
    ids=["a little longer", "nothing was planned", "a try failed", "it did not come to its end"],
)
def test_a_day_that_was_only_strange_leaves_the_median(last: RegionHistory) -> None:
    runs = [*[took(6.0, 6.0, "orders")] * 3, last]
    history = JobHistory(tuple(RunHistory(float(day), (each,)) for day, each in enumerate(runs)))
    assert predict_job(joined(), {"orders": 100 * MIB}, history, DEFAULTS, slots=2)["orders"].seconds == 6.0


def test_an_operation_that_took_far_longer_outdates_the_seconds_of_its_regions_and_nothing_else() -> None:
    group = ("orders", "customers", "joined")
    alone = RunHistory(0.0, tuple(took(6.0, 6.0, name) for name in group))
    together = RunHistory(1.0, (took(90.0, 18.0, *group),), spent={"orders": 10.0, "customers": 10.0, "joined": 70.0})
    today = {"orders": 100 * MIB, "customers": 100 * MIB}
    before, after = (
        predict_job(joined(), today, JobHistory(runs), DEFAULTS, slots=2) for runs in ((alone,), (alone, together))
    )
    # the operation reads twice as much today: 90 * (1 + 200 / 20) / (1 + 100 / 20) = 165 seconds
    assert [round(after[name].seconds, 2) for name in group] == [18.33, 18.33, 128.33]
    assert [after[name].output_bytes for name in group] == [before[name].output_bytes for name in group]
    again = RunHistory(2.0, tuple(took(7.0, 6.0, name) for name in group))
    known = predict_job(joined(), today, JobHistory((alone, together, again)), DEFAULTS, slots=2)
    assert known["orders"].seconds == 7.0


def read_twice(*keys: str) -> JobGraph:
    """`orders` has a reader by each key."""
    return build_job_graph(
        [JobVertex("orders", has_source=True), *(JobVertex(f"by_{number}") for number, _ in enumerate(keys))],
        [
            JobEdge("orders", f"by_{number}", "orders", Partitioning.HASH, (key,), durable=True)
            for number, key in enumerate(keys)
        ],
        8,
    )


def test_a_region_writes_a_result_for_each_way_in_which_it_is_cut_and_each_is_read_alone() -> None:
    same, other = (
        predict_job(read_twice("customer", key), {"orders": 200 * MIB}, defaults=DEFAULTS)
        for key in ("customer", "region")
    )
    assert [(each["orders"].output_bytes, each["orders"].results) for each in (same, other)] == [
        (100 * MIB, 1),
        (200 * MIB, 2),
    ]
    assert [each["by_1"].input_bytes for each in (same, other)] == [100 * MIB] * 2


def test_what_earlier_runs_wrote_is_of_all_results() -> None:
    # both results together: 40 MiB of five million rows each
    history = JobHistory((RunHistory(0.0, (RegionHistory(("orders",), 100 * MIB, 40 * MIB, 5_000_000, 12.0),)),))
    found = predict_job(read_twice("customer", "region"), {"orders": 100 * MIB}, history, DEFAULTS)
    assert (found["orders"].output_bytes, found["orders"].output_rows) == (40 * MIB, 5_000_000)
    assert [found[name].input_bytes for name in ("by_0", "by_1")] == [20 * MIB] * 2
    group = ("orders", "by_0", "by_1")
    joined = JobHistory((RunHistory(0.0, (seen(100 * MIB, MIB, 12.0, *group),)),))
    alone = predict_job(read_twice("customer", "region"), {"orders": 100 * MIB}, joined, DEFAULTS)
    assert (alone["orders"].output_bytes, alone["by_0"].input_bytes) == (100 * MIB, 50 * MIB)
    # of the last of an operation it is known what it writes, and of a day that nobody has seen nothing was tried
    assert [alone[name].is_untried for name in group] == [True, True, False]
    first = predict_job(read_twice("customer", "region"), {"orders": 100 * MIB})
    assert not any(each.is_untried for each in first.values())


def test_days_on_which_a_region_wrote_other_columns_say_nothing() -> None:
    days = [replace(seen(100 * MIB, MIB, 60.0, "orders"), columns=columns) for columns in ("two", "three", "")]
    history = JobHistory(tuple(RunHistory(0.0, (each,)) for each in days))
    today = {("orders",): "three", ("customers", "joined"): "one"}
    assert replace(history, columns=today).runs_of(("orders",)) == days[1:]
    usual = history.as_last_written()
    assert usual.runs_of(("orders",)) == days[1:]  # planned once, although "two" is still in the history
    assert usual.find_changed(today) == []
    assert usual.find_changed({("orders",): "two"}) == ["orders"]
    assert predict_job(joined(), {"orders": MIB}, replace(history, columns={("orders",): "three"}))[
        "orders"
    ].from_history
    strange = JobHistory((RunHistory(0.0, (days[0],)),), columns=today)
    assert predict_job(joined(), {"orders": MIB}, strange) == predict_job(joined(), {"orders": MIB})


def test_what_did_not_come_to_its_end_says_nothing() -> None:
    broken = [
        replace(seen(100 * MIB, MIB, 60.0, "orders"), is_whole=False),
        seen(0, 0, 60.0, "orders"),
        seen(100 * MIB, MIB, 0.0, "orders"),
        seen(100 * MIB, MIB, 60.0, "orders", "gone"),
    ]
    history = JobHistory(tuple(RunHistory(0.0, (each,)) for each in broken))
    assert predict_job(joined(), {"orders": MIB}, history) == predict_job(joined(), {"orders": MIB})


def test_only_the_last_fifteen_runs_count() -> None:
    runs = [seen(100 * MIB, MIB, seconds, "orders") for seconds in [600.0] * 40 + [6.0] * 8 + [12.0] * 7]
    history = JobHistory(tuple(RunHistory(float(day), (each,)) for day, each in enumerate(runs)))
    assert predict_job(joined(), {"orders": 100 * MIB}, history, DEFAULTS, slots=2)["orders"].seconds == 6.0


@given(st.data())
def test_any_history_gives_a_prediction_of_every_region_above_zero(data: st.DataObject) -> None:
    names = st.lists(st.sampled_from(["orders", "customers", "joined", "gone"]), min_size=1, unique=True).map(tuple)
    size, seconds = st.integers(0, 10**15), st.just(0.0) | st.floats(1e-6, 1e7)  # what clocks tell
    region = st.builds(
        RegionHistory, names, size, size, size, seconds, is_whole=st.booleans(), predicted_seconds=st.none() | seconds
    )
    counted = st.builds(PassedHistory, size, st.none() | size, st.none() | size)
    passed = st.dictionaries(st.sampled_from(["orders", "customers", "joined"]), counted)
    spent = st.dictionaries(st.sampled_from(["orders", "customers", "joined"]), seconds)
    run = st.builds(RunHistory, seconds, st.lists(region, max_size=3).map(tuple), passed=passed, spent=spent)
    runs = data.draw(st.lists(run, max_size=4))
    sources = {"orders": data.draw(size), "customers": data.draw(size)}
    found = predict_job(joined(), sources, JobHistory(tuple(runs)), slots=data.draw(st.integers(1, 64)))
    assert list(found) == ["orders", "customers", "joined"]
    assert all(each.seconds > 0 and each.output_bytes >= 0 for each in found.values())
    assert all(each.output_rows is None or each.output_rows >= 0 for each in found.values())


@pytest.mark.parametrize("name", ["bytes_in", "bytes_out", "rows", "seconds", "machine_failures", "data_failures"])
def test_a_history_of_negative_numbers_is_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}: expected a"):
        replace(seen(1, 1, 1.0, "orders"), **{name: -1})


def test_a_history_of_no_region_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="regions: expected the declared regions that ran, found none"):
        seen(1, 1, 1.0)


def test_seconds_of_vertices_below_zero_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="spent of 'orders': expected a"):
        RunHistory(0.0, (), spent={"orders": -1.0})


@pytest.mark.parametrize("name", ["rows", "bytes", "partial_results"])
def test_counts_below_zero_are_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}: expected a"):
        replace(PassedHistory(1, 1, 1), **{name: -1})


@given(
    st.lists(st.sampled_from([1, 10**9, 2**60]), min_size=3, max_size=3),
    st.sampled_from([5e-324, 1e-9, 9.9e10]),
    st.sampled_from([1, 2**60]),
)
def test_the_strangest_history_that_is_taken_gives_predictions_that_can_be_stored(
    counts: list[int], seconds: float, size: int
) -> None:
    names = [f"v{number}" for number in range(24)]
    vertices = [JobVertex(name, has_source=name == "v0") for name in names]
    edges = [JobEdge(before, name, "rows", Partitioning.HASH, ("k",)) for before, name in pairwise(names)]
    regions = tuple(RegionHistory((name,), *counts, seconds=seconds) for name in names)
    history = JobHistory((RunHistory(0.0, regions),))
    for each in predict_job(build_job_graph(vertices, edges, 8), {"v0": size}, history).values():
        assert isfinite(each.seconds)
        assert max(each.input_bytes, each.output_bytes, each.output_rows or 0) < 2**63
