"""What slots do to the number of subtasks: few waves are filled, and more than are of use make subtasks larger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.graph.partitioning import Partitioning


def hash_input(*rows: tuple[int, ...], name: str = "orders") -> BlockingInput:
    return BlockingInput(name, Partitioning.HASH, rows)


@pytest.mark.parametrize(
    ("needed", "used"),
    [
        (5, 5),  # one wave: not made smaller
        (8, 8),
        (9, 16),  # two waves: the second is filled
        (16, 16),
        (17, 24),
        (25, 25),  # four waves: a last one that is not full costs little
    ],
)
def test_few_waves_are_filled(needed: int, used: int) -> None:
    decision = decide_region("r", [hash_input((1,) * needed * 2)], [], RegionOptions(2, slots=8))
    assert decision.parallelism == used


def test_filling_slots_is_explained_and_keeps_the_bounds() -> None:
    decision = decide_region("r", [hash_input((1,) * 18)], [], RegionOptions(2, slots=8))
    assert decision.reason == "18 B at a target of 2 B -> 16 subtasks; slots per wave 8 raises 9 to 16"
    assert (
        decide_region("r", [hash_input((1,) * 18)], [], RegionOptions(2, slots=8, max_parallelism=15)).parallelism == 9
    )
    assert decide_region("r", [hash_input((2,) * 9)], [], RegionOptions(2, slots=8)).parallelism == 9
    assert decide_region("s", [], [SourceInput("f", (1,) * 18)], RegionOptions(2, slots=8)).parallelism == 16


@pytest.mark.parametrize(
    ("needed", "slots", "used"),
    [
        (4, 2, 2),  # one wave of subtasks of twice the target
        (5, 2, 4),  # two waves
        (30, 2, 4),
        (30, 8, 16),
        (30, 64, 30),  # not one wave
        (30, None, 30),
    ],
)
def test_more_waves_than_are_of_use_make_subtasks_larger(needed: int, slots: int | None, used: int) -> None:
    options = RegionOptions(2, slots=slots, most_waves=2)
    assert decide_region("r", [hash_input((1,) * needed * 2)], [], options).parallelism == used
    assert decide_region("s", [], [SourceInput("f", (2,) * needed)], options).parallelism == used


def test_a_target_that_grows_is_explained_stays_below_a_gibibyte_and_yields_to_bounds() -> None:
    options = RegionOptions(128 * 2**20, slots=2, most_waves=2)
    mib = hash_input((32 * 2**20,) * 64)
    assert decide_region("r", [mib], [], options).reason == (
        "2.0 GiB at a target of 128.0 MiB -> 4 subtasks; more than 4 would only be more waves: the target grows to "
        "512.0 MiB"
    )
    assert decide_region("r", [hash_input((2**29,) * 64)], [], options).parallelism == 32
    assert decide_region("s", [], [SourceInput("f", (2**29,) * 64)], options).parallelism == 32
    assert decide_region("r", [mib], [], replace(options, min_parallelism=8)).parallelism == 8


def test_hot_subpartitions_are_shared_out_also_where_the_target_grows() -> None:
    options = RegionOptions(10, slots=2, most_waves=2, splittable=("o",))
    skewed = BlockingInput("o", Partitioning.HASH, [[10] * 7 + [200]] * 8)
    decision = decide_region("r", [skewed], [], options)
    hot = [subtask for subtask in decision.subtasks if subtask.hot_part]
    assert len(hot) == 4  # of 1,600 bytes, at the 540 that four subtasks have: two producers' 200 each
    assert len(decision.subtasks) == 6  # two for the rest, which fill the last wave


def test_a_source_of_unknown_size_gets_as_many_subtasks_as_a_source_may_have() -> None:
    source = SourceInput("asked", (1,) * 100, size_from="default")

    def decided(**options: Any) -> int:
        return decide_region("s", [], [source], RegionOptions(1, max_parallelism=64, **options)).parallelism

    assert decided() == 64
    assert decided(default_source_parallelism=10) == 10
    assert decided(slots=8, most_waves=2) == 16
    assert decided(strategy="power_of_two") == 64
    assert decided(strategy="power_of_two", default_source_parallelism=10) == 10


def test_no_more_subtasks_than_can_be_mapped_and_each_reads_more() -> None:
    options = RegionOptions(1, max_parallelism=4000, max_map_length=1024)
    decision = decide_region("r", [hash_input((1,) * 4000)], [], options)
    assert (decision.parallelism, decision.clamps[-1].name) == (1024, "max_map_length")
    assert decision.reason.endswith("-> 1,024 subtasks; max_map_length 1024 forces 4 B per subtask")
    assert sum(len(subtask.subpartitions or ()) for subtask in decision.subtasks) == 4000
    fixed = decide_region("r", [hash_input((1,) * 4000)], [], replace(options, parallelism=3000))
    assert (fixed.parallelism, fixed.rule) == (1024, "fixed")
    least = decide_region("r", [hash_input((1,) * 4000)], [], replace(options, min_parallelism=2000))
    assert least.parallelism == 1024
    files = decide_region("s", [], [SourceInput("f", (1,) * 4000)], options)
    assert files.parallelism == 1024
    two = decide_region(
        "r", [hash_input((1,) * 4096)], [], replace(options, max_map_length=1000, strategy="power_of_two")
    )
    assert two.parallelism == 512
