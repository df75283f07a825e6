"""One region's decision: number of subtasks, ranges, splits, and the words for it."""

from __future__ import annotations

import json

import pytest

from airflow_abs.core.decide.parallelism import Clamp
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.partitioning import Partitioning

GIB = 2**30


def hash_input(*rows: tuple[int, ...], name: str = "orders") -> BlockingInput:
    return BlockingInput(name, Partitioning.HASH, rows)


def broadcast_input(size: int, name: str = "customers") -> BlockingInput:
    return BlockingInput(name, Partitioning.BROADCAST, ((size,),))


def ranges_of(decision: RegionDecision) -> list[tuple[int, int]]:
    return [(s.subpartitions.start, s.subpartitions.stop) for s in decision.subtasks if s.subpartitions]


def test_volume_over_target_gives_as_many_subtasks_of_about_equal_bytes() -> None:
    # 8 subpartitions of 2 x 10 bytes at a target of 50: two fit into one range, so 4 ranges of 40.
    decision = decide_region("join", [hash_input((10,) * 8, (10,) * 8)], [], RegionOptions(target_bytes=50))
    assert decision.parallelism == 4
    assert ranges_of(decision) == [(0, 2), (2, 4), (4, 6), (6, 8)]
    assert [subtask.bytes for subtask in decision.subtasks] == [40, 40, 40, 40]
    assert decision.reason == "160 B at a target of 50 B -> 4 subtasks"
    assert decision.total_bytes == 160
    assert decision.max_over_mean == 1.0


def test_more_subtasks_than_the_quotient_are_explained_by_whole_subpartitions() -> None:
    # 30 + 30 exceeds 50, so each of the four stands alone although 120 / 50 rounds up to 3.
    decision = decide_region("join", [hash_input((30, 30, 30, 30))], [], RegionOptions(target_bytes=50))
    assert decision.parallelism == 4
    assert decision.reason == "120 B at a target of 50 B -> 4 subtasks; 3 would do if subpartitions could be cut"


def test_ranges_are_evened_out_instead_of_leaving_a_small_rest() -> None:
    # Greedy with 100 would give 10 ones and 2 ones; the number 2 stays, the limit becomes the smallest that gives it.
    decision = decide_region("r", [hash_input((10,) * 12)], [], RegionOptions(target_bytes=100))
    assert [subtask.bytes for subtask in decision.subtasks] == [60, 60]


def test_co_partitioned_inputs_share_their_ranges() -> None:
    left, right = hash_input((10, 0, 0, 30), name="left"), hash_input((0, 20, 20, 0), name="right")
    decision = decide_region("r", [left, right], [], RegionOptions(target_bytes=30))
    assert ranges_of(decision) == [(0, 2), (2, 3), (3, 4)]


def test_an_empty_day_is_one_subtask() -> None:
    decision = decide_region("r", [hash_input((0, 0, 0))], [SourceInput("files", ())], RegionOptions(target_bytes=10))
    assert decision.parallelism == 1
    assert decision.reason == "no input bytes -> 1 subtask"
    assert ranges_of(decision) == [(0, 3)]
    assert decision.max_over_mean == 1.0


def test_a_hot_subpartition_stands_alone_and_empty_ones_get_no_subtask() -> None:
    decision = decide_region("r", [hash_input((0, 0, 900, 0, 1, 1))], [], RegionOptions(target_bytes=10))
    assert ranges_of(decision) == [(0, 4), (4, 6)]
    assert decision.reason.endswith("-> 2 subtasks; subpartition 2 alone holds 900 B")


def test_an_upper_bound_says_what_it_forces() -> None:
    decision = decide_region("r", [hash_input((10,) * 8)], [], RegionOptions(target_bytes=10, max_parallelism=2))
    assert decision.clamps == (Clamp("max_parallelism", 8, 2, 2),)
    forced = "max_parallelism 2 lets the target grow to 40 B per subtask"
    assert decision.reason == f"80 B at a target of 10 B -> 2 subtasks; {forced}"


def test_a_lower_bound_is_met_exactly_even_by_equal_sizes() -> None:
    # No limit gives three ranges of four equal subpartitions; one of two halves is cut again.
    decision = decide_region("r", [hash_input((10,) * 4)], [], RegionOptions(target_bytes=100, min_parallelism=3))
    assert ranges_of(decision) == [(0, 1), (1, 2), (2, 4)]
    assert decision.reason == "40 B at a target of 100 B -> 3 subtasks; min_parallelism 3 raises 1 to 3"


def test_never_more_subtasks_than_subpartitions() -> None:
    decision = decide_region("r", [hash_input((5, 5))], [], RegionOptions(target_bytes=100, min_parallelism=4))
    assert decision.parallelism == 2
    assert decision.clamps[-1] == Clamp("number of subpartitions", 4, 2, 2)


def test_broadcast_inputs_do_not_count() -> None:
    decision = decide_region("r", [hash_input((10, 10)), broadcast_input(10**9)], [], RegionOptions(target_bytes=20))
    assert decision.parallelism == 1
    assert (decision.total_bytes, decision.broadcast_bytes) == (20, 10**9)


def test_only_broadcast_inputs_give_the_lower_bound() -> None:
    decision = decide_region("r", [broadcast_input(2048)], [], RegionOptions(target_bytes=1, min_parallelism=2))
    assert decision.rule == "broadcast_only"
    assert decision.subtasks[1].subpartitions is None
    assert decision.reason == (
        "only broadcast inputs (2.0 KiB, read whole by every subtask) -> 2 subtasks; min_parallelism 2 raises 1 to 2"
    )


def test_a_source_gets_a_subtask_per_target_and_splits_of_about_equal_bytes() -> None:
    # 3 GiB over 1 GiB: 3 subtasks; largest first onto the least loaded.
    sizes = tuple(GIB // 4 * k for k in (4, 1, 1, 2, 2, 2))
    decision = decide_region("orders", [], [SourceInput("orders", sizes)], RegionOptions(target_bytes=GIB))
    assert decision.rule == "sources"
    assert [subtask.splits["orders"] for subtask in decision.subtasks] == [(0,), (3, 5), (1, 2, 4)]
    assert decision.reason == "3.0 GiB in 6 splits at a target of 1.0 GiB -> 3 subtasks"


def test_one_large_split_is_one_subtask() -> None:
    decision = decide_region("s", [], [SourceInput("f", (5 * GIB,))], RegionOptions(target_bytes=GIB))
    assert decision.parallelism == 1
    assert decision.reason.endswith("-> 1 subtask; number of splits 1 forces 5.0 GiB per subtask")


def test_the_default_source_parallelism_bounds_a_source() -> None:
    options = RegionOptions(target_bytes=1, default_source_parallelism=2)
    decision = decide_region("s", [], [SourceInput("f", (5, 5, 5, 5))], options)
    assert decision.parallelism == 2
    assert Clamp("default_source_parallelism", 20, 2, 2) in decision.clamps


def test_a_default_source_parallelism_is_not_raised_to_fill_the_slots() -> None:
    options = RegionOptions(target_bytes=10, default_source_parallelism=9, slots=8)
    decision = decide_region("s", [], [SourceInput("f", (10,) * 100)], options)
    assert decision.reason == (
        "1000 B in 100 splits at a target of 10 B -> 9 subtasks; default_source_parallelism 9 forces 120 B per subtask"
    )


def test_broadcast_inputs_leave_less_of_the_target_if_the_job_says_so() -> None:
    inputs = [hash_input((10,) * 10), broadcast_input(90)]
    half = decide_region("r", inputs, [], RegionOptions(target_bytes=40, max_broadcast_ratio=0.5))
    assert half.reason == "100 B at a target of 20 B (20 B set aside for broadcast inputs) -> 5 subtasks"
    assert decide_region("r", inputs, [], RegionOptions(target_bytes=40)).parallelism == 3


def test_only_the_source_that_asks_for_most_explains_the_number() -> None:
    sources = [SourceInput("one_file", (30,)), SourceInput("many", (10, 10, 10, 10, 10))]
    decision = decide_region("s", [], sources, RegionOptions(target_bytes=10))
    assert decision.parallelism == 5
    assert decision.reason == "80 B in 6 splits at a target of 10 B -> 5 subtasks; split 0 of one_file alone holds 30 B"


def test_with_partitioned_inputs_the_sources_set_a_minimum() -> None:
    options = RegionOptions(target_bytes=100)
    sources = [SourceInput("a", (100,) * 3), SourceInput("b", (100,) * 2)]
    decision = decide_region("r", [hash_input((10,) * 8)], sources, options)
    assert decision.parallelism == 3
    assert decision.clamps == (Clamp("sources", 1, 3, 3),)
    # Splits balance against the ranges: 30 + 200, 20 + 200, 30 + 100.
    assert sorted(subtask.bytes for subtask in decision.subtasks) == [130, 220, 230]


def test_a_parallelism_set_by_the_user_is_kept() -> None:
    decision = decide_region("r", [hash_input((0, 9, 0, 1))], [], RegionOptions(target_bytes=1, parallelism=3))
    assert (decision.rule, decision.parallelism) == ("fixed", 3)
    assert decision.reason == "parallelism 3 set by the user -> 3 subtasks; subpartition 1 alone holds 9 B"
    assert [index for span in ranges_of(decision) for index in range(*span)] == [0, 1, 2, 3]


def test_a_parallelism_above_the_number_of_subpartitions_is_an_error() -> None:
    with pytest.raises(InvalidValueError, match=r"region 'r': parallelism 3 is set, but its inputs have 2 subpart"):
        decide_region("r", [hash_input((1, 1))], [], RegionOptions(target_bytes=1, parallelism=3))


def test_a_region_that_cannot_be_spread_is_one_subtask() -> None:
    options = RegionOptions(target_bytes=1, parallelism=4, single_subtask_reason="all-to-all edge a -> b inside")
    decision = decide_region("r", [hash_input((1, 1))], [], options)
    assert decision.reason == ("all-to-all edge a -> b inside -> 1 subtask; single_subtask 1 forces 2 B per subtask")
    assert decision.clamps == (Clamp("single_subtask", 4, 1, 1),)


def test_a_region_that_cannot_be_spread_needs_no_clamp_if_nobody_asked_for_more() -> None:
    decision = decide_region("r", [hash_input((5, 5))], [], RegionOptions(9, single_subtask_reason="one writer"))
    assert decision.clamps == ()
    assert decision.reason == "one writer -> 1 subtask; the largest reads 10 B"


def test_a_decision_survives_json() -> None:
    inputs = [hash_input((10,) * 8), broadcast_input(7)]
    decision = decide_region("r", inputs, [SourceInput("f", (1, 2, 3))], RegionOptions(target_bytes=20))
    assert RegionDecision.from_json(json.loads(json.dumps(decision.to_json()))) == decision


def test_json_of_a_thousand_subtasks_stays_small() -> None:
    decision = decide_region("r", [hash_input((2**30,) * 1024)], [], RegionOptions(2**30, max_parallelism=1024))
    assert decision.parallelism == 1024
    assert len(json.dumps(decision.to_json())) < 32 * 1024


def test_an_unknown_format_version_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="expected format version 1, found 9"):
        RegionDecision.from_json({"version": 9})


def test_a_damaged_decision_is_named() -> None:
    data = decide_region("r", [hash_input((1, 1))], [], RegionOptions(1)).to_json()
    with pytest.raises(
        InvalidValueError, match=r"decision of region 'r': incomplete or damaged \(KeyError\('cuts'\)\)"
    ):
        RegionDecision.from_json({key: value for key, value in data.items() if key != "cuts"})
    with pytest.raises(InvalidValueError, match=r"decision of region 'r': incomplete or damaged \(IndexError"):
        RegionDecision.from_json({**data, "cuts": [0, 1]})


def test_describe_tells_people_everything() -> None:
    inputs = [hash_input((2**20,) * 4), broadcast_input(3)]
    decision = decide_region("join", inputs, [SourceInput("f", (5,))], RegionOptions(2**21, max_parallelism=8))
    assert decision.describe().splitlines() == [
        "join: 4.0 MiB and 5 B in 1 split at a target of 2.0 MiB -> 2 subtasks; the largest reads 2.0 MiB",
        "  rule balanced, target 2.0 MiB, parallelism 1 to 8",
        "  input orders (hash): 4.0 MiB from 1 subtask in 4 subpartitions",
        "  input customers (broadcast): 3 B, read whole by every subtask",
        "  source f: 5 B in 1 split",
        "  largest subtask 1.00 times the mean",
        "  subtask 0: 2.0 MiB (subpartitions [0, 2), 1 split of f)",
        "  subtask 1: 2.0 MiB (subpartitions [2, 4), 0 splits of f)",
    ]


def test_describe_shortens_a_long_list_and_shows_bounds() -> None:
    text = decide_region("r", [hash_input((1,) * 30)], [], RegionOptions(1, max_parallelism=20)).describe()
    assert "  bound max_parallelism 20: decided 30, used 20" in text
    assert text.endswith("\n  ... and 8 more subtasks")


def test_index_range_of_a_subtask_is_half_open() -> None:
    decision = decide_region("r", [hash_input((1, 1))], [], RegionOptions(1))
    assert decision.subtasks[0].subpartitions == IndexRange(0, 1)


def test_the_reason_says_how_many_partitions_are_read() -> None:
    source = SourceInput("days", (50, 50), partitions_read=(2, 90))
    decision = decide_region("days", [], [source], RegionOptions(target_bytes=50))
    assert decision.reason == "100 B in 2 splits (2 of 90 partitions read) at a target of 50 B -> 2 subtasks"
    none = SourceInput("days", (), partitions_read=(0, 1))
    decision = decide_region("days", [], [none], RegionOptions(target_bytes=50))
    assert decision.reason == "no input bytes (0 of 1 partition read) -> 1 subtask"
