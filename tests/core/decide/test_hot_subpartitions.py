"""A hot subpartition of a join is distributed; everything else stays as it was."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.hot_subpartitions import (
    ROW_CLASSES,
    HotSubpartition,
    ProducerShare,
    find_hottest,
    row_class,
)
from airflow_abs.core.decide.ranges import IndexRange
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning

HASH = Partitioning.HASH


def decide(left: list[list[int]], right: list[list[int]], **options: object) -> RegionDecision:
    given = {"target_bytes": 100, "splittable": ("left",), **options}
    inputs = [BlockingInput("left", HASH, left), BlockingInput("right", HASH, right)]
    return decide_region("joined", inputs, [], RegionOptions(**given))  # type: ignore[arg-type]


HOT_LEFT = [[20, 90, 20, 20], [20, 90, 20, 20], [20, 90, 20, 20]]  # 3 producers, subpartition 1 is hot
RIGHT = [[10, 10, 10, 10]]


def test_a_hot_subpartition_is_cut_along_its_producers_and_left_out_of_the_ranges() -> None:
    decision = decide(HOT_LEFT, RIGHT)
    assert decision.parallelism == 6
    ranges, parts = decision.subtasks[:3], decision.subtasks[3:]
    assert [subtask.subpartitions for subtask in ranges] == [IndexRange(0, 2), IndexRange(2, 3), IndexRange(3, 4)]
    assert [subtask.bytes for subtask in ranges] == [70, 70, 70]
    assert [subtask.subpartitions for subtask in parts] == [IndexRange(1, 2)] * 3
    assert [part.hot_part.producers for part in parts if part.hot_part] == [IndexRange(k, k + 1) for k in range(3)]
    assert [subtask.bytes for subtask in parts] == [100, 100, 100]  # its part, and all of the other side
    assert decision.hot_subpartitions == {1}
    assert decision.reason == (
        "490 B at a target of 100 B -> 6 subtasks; subpartition 1 of left is hot and shared by 3"
    )
    assert "subtask 4: 100 B (subpartitions [1, 2), of left what producers [1, 2) wrote)" in decision.describe()


def test_nothing_is_split_unless_it_may_be() -> None:
    whole = decide(HOT_LEFT, RIGHT, splittable=())
    assert (whole.parallelism, whole.hot_subpartitions) == (4, set())
    assert decide(HOT_LEFT, RIGHT, splittable=("right",)).hot_subpartitions == set()
    assert decide(HOT_LEFT, RIGHT, strategy="power_of_two").hot_subpartitions == set()
    assert decide(HOT_LEFT, RIGHT, parallelism=2).hot_subpartitions == set()
    assert decide(HOT_LEFT, RIGHT, single_subtask_reason="an all-to-all edge").parallelism == 1


def test_what_one_producer_wrote_is_cut_into_equal_shares() -> None:
    decision = decide([[20, 600, 20, 20]], RIGHT)
    # 90 beside the 10 of the other side keep the target: 7 shares.
    shares = [subtask for subtask in decision.subtasks if subtask.hot_part]
    assert [each.hot_part.share for each in shares if each.hot_part] == [ProducerShare(0, k, 7) for k in range(7)]
    assert [each.bytes for each in shares] == [95, 96, 96, 95, 96, 96, 96]
    assert "subtask 2: 96 B (subpartitions [1, 2), of left share 1 of 7 of producer 0)" in decision.describe()
    assert decision.to_json()["hot_parts"][1] == {
        "subpartition": 1,
        "input": "left",
        "producers": None,  # an older version cannot take it for all that the producer wrote
        "bytes": 96,
        "share": {"producer": 0, "number": 1, "count": 7},
    }


def test_a_part_of_whole_producers_is_stored_as_before_there_were_shares() -> None:
    decision = decide([[20, 90, 20, 20]] * 2, RIGHT)
    assert decision.to_json()["hot_parts"][0] == {
        "subpartition": 1,
        "input": "left",
        "producers": {"start": 0, "stop": 1},
        "bytes": 100,
    }


@pytest.mark.parametrize("producers", [1, 5])
@pytest.mark.parametrize("share", [0.2, 0.4, 0.9])
def test_a_hot_key_is_even_however_many_subtasks_wrote_it(producers: int, share: float) -> None:
    """Of 128 subpartitions one has this share of a gibibyte, the others are alike."""
    mib = 2**20
    even = int(1024 * mib * (1 - share) / 127 / producers)
    row = [even] * 128
    row[17] = int(1024 * mib * share / producers)
    decision = decide([row] * producers, [[1000] * 128], target_bytes=64 * mib, max_parallelism=128)
    assert decision.hot_subpartitions == {17}
    assert decision.max_over_mean < 1.3


def test_parts_grow_where_there_is_no_room_for_as_many_as_the_target_asks_for() -> None:
    decision = decide([[20, 6000, 20, 20]], RIGHT, max_parallelism=8)
    assert sum(subtask.hot_part is not None for subtask in decision.subtasks) == 4
    assert decision.parallelism <= 8


def test_parts_grow_with_the_target_to_save_waves() -> None:
    # 2,160 bytes fill two waves of two slots with 540 each: three parts of 1,600, and one subtask for the rest.
    options = {"slots": 2, "most_waves": 2, "target_bytes": 10}
    decision = decide([[80] * 7 + [1600]], [[0] * 8], **options)
    assert sum(subtask.hot_part is not None for subtask in decision.subtasks) == 3
    assert decision.parallelism == 4


@given(sizes=st.lists(st.integers(0, 10**9), min_size=1, max_size=20), count=st.integers(1, 40))
def test_every_row_of_every_file_is_in_one_share(sizes: list[int], count: int) -> None:
    shares = [ProducerShare(3, number, count).within(sizes) for number in range(count)]
    for index, size in enumerate(sizes):
        spans = sorted(found[index] for found in shares if index in found)
        classes = [number for span in spans for number in (span.start, span.stop)]
        assert classes[1:-1:2] == classes[2::2]  # one begins where the one before ends
        assert (classes[:1], classes[-1:]) == (([0], [ROW_CLASSES]) if size else ([], []))
    for found in shares:  # about as many bytes as the others
        held = sum(sizes[index] * len(span) for index, span in found.items())
        assert abs(held / ROW_CLASSES - sum(sizes) / count) <= 1 + 2 * max(sizes) / ROW_CLASSES


@given(first=st.integers(0, 10**7), rows=st.integers(1, 3000), parts=st.integers(2, 9))
def test_any_run_of_rows_falls_into_the_classes_evenly(first: int, rows: int, parts: int) -> None:
    expression = row_class("{}").replace("pmod", "mod")
    held = [0] * parts
    for row in range(first, first + rows):
        held[eval(expression.format(row), {"mod": int.__mod__}) * parts // ROW_CLASSES] += 1  # noqa: S307
    assert sum(held) == rows
    assert max(held) - min(held) <= 12  # it grows with the logarithm of their number


def test_where_both_sides_may_be_spread_the_one_with_more_parts_is() -> None:
    left, right = [[10, 300, 10, 10]] * 2, [[10, 200, 10, 10]] * 5
    decision = decide(left, right, splittable=("left", "right"))
    assert {subtask.hot_part.input for subtask in decision.subtasks if subtask.hot_part} == {"right"}


def test_hot_subpartitions_take_at_most_half_of_the_subtasks_there_may_be_the_largest_first() -> None:
    left = [[300, 10, 400, 10, 10, 10]] * 4
    decision = decide(left, [[1] * 6], max_parallelism=9)
    assert [subtask.subpartitions for subtask in decision.subtasks if subtask.hot_part] == [
        *[IndexRange(0, 1)] * 2,
        *[IndexRange(2, 3)] * 2,
    ]
    assert decision.parallelism <= 9
    assert decide(left, [[1] * 6], max_parallelism=7).hot_subpartitions == {2}
    assert decide(left, [[1] * 6], max_parallelism=3).hot_subpartitions == set()


def test_waves_are_filled_with_smaller_ranges() -> None:
    decision = decide([[20, 90, 20, 20, 20, 20]] * 3, [[10] * 6], slots=4)
    assert decision.parallelism == 8
    assert sum(subtask.hot_part is None for subtask in decision.subtasks) == 5


def test_if_only_the_hot_one_holds_anything_no_subtask_is_left_for_the_rest() -> None:
    decision = decide([[0, 90, 0, 0]] * 3, [[0, 10, 0, 0]])
    assert [subtask.hot_part is not None for subtask in decision.subtasks] == [True] * 3
    assert RegionDecision.from_json(json.loads(json.dumps(decision.to_json()))) == decision


@pytest.mark.parametrize("joined", [True, False])
@given(st.data())
def test_every_pair_of_rows_meets_once(joined: bool, data: st.DataObject) -> None:
    """Cell (producer, subpartition) of each side is read by the subtasks that it must be, and by no other."""
    subpartitions = data.draw(st.integers(1, 8))
    sizes = st.one_of(st.integers(0, 30), st.integers(200, 900))
    side = st.lists(st.lists(sizes, min_size=subpartitions, max_size=subpartitions), min_size=1, max_size=5)
    left, right = data.draw(side), data.draw(side)
    decision = decide(left, right, splittable=("left", "right") if joined else ("left",), max_parallelism=16)
    assert RegionDecision.from_json(json.loads(json.dumps(decision.to_json()))) == decision
    pairs: dict[tuple[int, int, int], Fraction] = {}
    for subtask in decision.subtasks:
        part = subtask.hot_part
        assert subtask.subpartitions is not None
        for number in subtask.subpartitions:
            if part is None and number in decision.hot_subpartitions:
                continue
            lefts = part.read_producers if part and part.input == "left" else range(len(left))
            rights = part.read_producers if part and part.input == "right" else range(len(right))
            share = Fraction(1, part.share.count) if part and part.share else Fraction(1)
            for one in lefts:
                for other in rights:
                    pairs[one, other, number] = pairs.get((one, other, number), Fraction(0)) + share
    parts = [each.hot_part for each in decision.subtasks if each.hot_part]
    cut = {part.subpartition: {"left": left, "right": right}[part.input] for part in parts}
    held = [n for n in range(subpartitions) if any(row[n] for row in (*left, *right))]

    def has_rows(one: int, other: int, n: int) -> bool:
        """What a producer wrote no byte of has no rows, and need not be in any part."""
        return n not in cut or bool(cut[n][one if cut[n] is left else other][n])

    cells = [(one, other, n) for one in range(len(left)) for other in range(len(right)) for n in held]
    expected = {cell: Fraction(1) for cell in cells if has_rows(*cell)}
    assert {key: times for key, times in pairs.items() if key[2] in held and has_rows(*key)} == expected
    assert decision.parallelism <= 16


def test_the_hottest_of_all_inputs_is_found_whether_or_not_it_may_be_distributed() -> None:
    # Medians of what holds anything: 20 and 10; hot is above four times that, and above the target.
    found = find_hottest({"left": [20, 0, 500, 20, 20], "right": [10, 10, 0, 10, 700]}, target_bytes=100)
    assert found == HotSubpartition("right", 4, 700, 10)
    assert find_hottest({"left": [20, 0, 500, 20, 20]}, target_bytes=500) is None


def test_a_few_keys_that_leave_most_subpartitions_empty_are_not_hot() -> None:
    assert find_hottest({"left": [0] * 100 + [900, 1000, 950]}, target_bytes=100) is None
    assert find_hottest({"left": [0, 900, 0]}, target_bytes=100) is None
    assert find_hottest({"left": [0, 0], "right": []}, target_bytes=100) is None
