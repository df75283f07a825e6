"""Files of rescale inputs, distributed to subtasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.file_ranges import deal_out_files, from_cuts, locate_files, to_cuts
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.partitioning import Partitioning

FILES = st.lists(st.lists(st.integers(0, 50), max_size=4), min_size=1, max_size=6)


def rescaled(*files: list[int], name: str = "orders") -> BlockingInput:
    return BlockingInput(name, Partitioning.RESCALE, files)


def hashed(*rows: list[int]) -> BlockingInput:
    return BlockingInput("by_key", Partitioning.HASH, rows)


def decide(*inputs: BlockingInput, target: int, **options: int) -> RegionDecision:
    return decide_region("copy", inputs, [], RegionOptions(target_bytes=target, **options))


def files_by_subtask(decision: RegionDecision, name: str = "orders") -> list[str | None]:
    return [str(subtask.files[name]) if name in subtask.files else None for subtask in decision.subtasks]


def test_files_of_neighbouring_producers_are_packed_to_the_target() -> None:
    # 30 + 20 (40 more would be 90), 40 + 10, 50
    decision = decide(rescaled([30, 20], [40], [10, 50]), target=64)
    assert decision.rule == "balanced"
    assert decision.reason == "150 B in 5 files at a target of 64 B -> 3 subtasks"
    assert files_by_subtask(decision) == ["[0, 2)", "[2, 4)", "[4, 5)"]
    assert [subtask.bytes for subtask in decision.subtasks] == [50, 50, 50]
    assert "  input orders (rescale): 150 B from 3 subtasks in 5 files" in decision.describe()
    assert "  subtask 1: 50 B (files [2, 4) of orders)" in decision.describe()


def test_there_are_never_more_subtasks_than_files_with_rows() -> None:
    decision = decide(rescaled([30], [0], [40]), target=64, min_parallelism=8)
    assert decision.reason == (
        "70 B in 2 files at a target of 64 B -> 2 subtasks; min_parallelism 8 raises 2 to 8; "
        "number of files 2 lowers 8 to 2"
    )
    assert files_by_subtask(decision) == ["[0, 2)", "[2, 3)"]


def test_a_file_above_the_target_is_named() -> None:
    decision = decide(rescaled([300], [10]), target=64)
    assert decision.reason == "310 B in 2 files at a target of 64 B -> 2 subtasks; file 0 of orders alone holds 300 B"


def test_files_that_do_not_fit_together_cost_subtasks_and_the_reason_says_so() -> None:
    # 240 / 64 is 4, but no two files of 40 fit into 64
    decision = decide(rescaled([40] * 6), target=64)
    assert decision.reason == "240 B in 6 files at a target of 64 B -> 6 subtasks; 4 would do if files could be cut"


def test_a_hash_and_a_rescale_input_share_the_target_by_their_bytes() -> None:
    # 120 by key and 60 in files share 90 as 60 and 30: both need two
    decision = decide(hashed([30, 30, 30, 30]), rescaled([10, 20], [15, 15]), target=90)
    assert decision.parallelism == 2
    assert [str(subtask.subpartitions) for subtask in decision.subtasks] == ["[0, 2)", "[2, 4)"]
    assert files_by_subtask(decision) == ["[0, 2)", "[2, 4)"]
    assert [subtask.bytes for subtask in decision.subtasks] == [90, 90]
    assert decision.reason == "120 B and 60 B in 4 files at a target of 90 B -> 2 subtasks"


def test_fewer_files_than_key_ranges_go_to_those_that_read_least() -> None:
    decision = decide(hashed([60, 20, 60, 30]), rescaled([7], [5]), target=74, max_parallelism=4)
    assert [str(subtask.subpartitions) for subtask in decision.subtasks] == ["[0, 1)", "[1, 2)", "[2, 3)", "[3, 4)"]
    assert files_by_subtask(decision) == [None, "[0, 1)", None, "[1, 2)"]
    assert RegionDecision.from_json(decision.to_json()) == decision


def test_splits_even_out_what_the_files_leave_uneven() -> None:
    source = SourceInput("more", [40, 10])
    decision = decide_region("copy", [rescaled([50], [20])], [source], RegionOptions(target_bytes=64))
    assert [subtask.splits["more"] for subtask in decision.subtasks] == [(1,), (0,)]
    assert [subtask.bytes for subtask in decision.subtasks] == [60, 60]


def test_no_files_with_rows_are_one_subtask_that_reads_them_all() -> None:
    decision = decide(rescaled([0], [0, 0]), target=64)
    assert (decision.parallelism, decision.reason) == (1, "no input bytes -> 1 subtask")
    assert files_by_subtask(decision) == ["[0, 3)"]
    assert files_by_subtask(decide(rescaled([], []), target=64)) == [None]


def test_a_given_parallelism_may_leave_subtasks_without_a_file() -> None:
    decision = decide_region("copy", [rescaled([9], [9])], [], RegionOptions(target_bytes=64, parallelism=3))
    assert files_by_subtask(decision) == ["[0, 1)", "[1, 2)", None]


def test_power_of_two_counts_files_and_keeps_their_number() -> None:
    options = RegionOptions(target_bytes=10, strategy="power_of_two")
    decision = decide_region("copy", [rescaled([10, 10, 10], [10, 10, 10])], [], options)
    assert files_by_subtask(decision) == ["[0, 1)", "[1, 3)", "[3, 4)", "[4, 6)"]
    assert (
        decision.reason
        == "60 B in 6 files at a target of 10 B is 6 -> 4 subtasks; number of files 4 forces 20 B per subtask"
    )


def test_slots_are_filled_up_to_the_number_of_files() -> None:
    assert decide(rescaled([10] * 5), target=10, slots=3).parallelism == 5
    decision = decide(rescaled([5] * 4, [5] * 4), target=10, slots=3)
    assert decision.reason.endswith("-> 6 subtasks; slots per wave 3 raises 4 to 6")


def test_negative_sizes_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"input 'orders'\[1\]: expected an integer of at least 0, found -3"):
        rescaled([4], [-3])


@given(FILES, st.lists(st.integers(0, 99), min_size=1, max_size=9))
def test_every_file_is_dealt_out_once_and_in_order(files: list[list[int]], loads: list[int]) -> None:
    sizes = {"orders": [size for of in files for size in of]}
    dealt = deal_out_files(sizes, loads)
    assert [file for own in dealt for file in own.get("orders", ())] == list(range(len(sizes["orders"])))
    assert deal_out_files(sizes, loads) == dealt
    if any(sizes["orders"]):
        assert all(sum(sizes["orders"][file] for file in own["orders"]) for own in dealt if own)


@given(FILES)
def test_a_range_of_all_files_is_found_again_at_its_producers(files: list[list[int]]) -> None:
    counts = [len(of) for of in files]
    every = [(producer, file) for producer, count in enumerate(counts) for file in range(count)]
    for start in range(len(every)):
        for stop in range(start + 1, len(every) + 1):
            found = locate_files(counts, IndexRange(start, stop))
            assert [(producer, file) for producer, span in found.items() for file in span] == every[start:stop]


def test_cut_points_say_which_subtasks_have_no_range() -> None:
    spans = [None, IndexRange(0, 2), None, IndexRange(2, 3)]
    assert to_cuts(spans) == [0, 0, 2, 2, 3]
    assert from_cuts(to_cuts(spans)) == spans
