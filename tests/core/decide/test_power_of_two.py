"""The rule of Flink 1.15: powers of two, and ranges of the same length."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.parallelism import Clamp
from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning


def hash_input(*rows: tuple[int, ...]) -> BlockingInput:
    return BlockingInput("orders", Partitioning.HASH, rows)


def options(target_bytes: int, **others: int) -> RegionOptions:
    return RegionOptions(target_bytes, strategy="power_of_two", **others)


def lengths(decision: RegionDecision) -> set[int]:
    return {len(subtask.subpartitions or ()) for subtask in decision.subtasks}


def test_ranges_are_cut_by_count() -> None:
    # 110 / 10 = 11 -> 8, whatever the subpartitions hold.
    decision = decide_region("r", [hash_input((103, *(1,) * 7))], [], options(10))
    assert decision.parallelism == 8
    assert lengths(decision) == {1}


def test_it_is_exact_beyond_floating_point() -> None:
    decision = decide_region("r", [hash_input((3 * 10**17 + 1,))], [], options(3))
    assert decision.reason.startswith("266.5 PiB at a target of 3 B is 100000000000000001 -> 1 subtask")


def test_broadcast_bytes_are_set_aside_up_to_half() -> None:
    inputs = [hash_input((50,) * 16), BlockingInput("b", Partitioning.BROADCAST, [[70]])]
    decision = decide_region("r", inputs, [], options(100))
    # 800 / (100 - 50) = 16; 800 / (100 - 20) = 10 -> 8.
    assert decision.reason == "800 B at a target of 50 B (50 B set aside for broadcast inputs) is 16 -> 16 subtasks"
    assert decide_region("r", inputs, [], options(100, max_broadcast_ratio=0.2)).parallelism == 8


def test_the_default_of_sources_is_their_number() -> None:
    source = SourceInput("f", (10,) * 100)
    decision = decide_region("s", [], [source], options(10, default_source_parallelism=6))
    assert decision.parallelism == 6
    assert decision.reason.startswith("1000 B in 100 splits at a target of 10 B, default_source_parallelism 6 -> 6")
    assert decide_region("s", [], [source], options(10**6, default_source_parallelism=6)).parallelism == 6


def test_without_a_default_sources_are_as_many_as_their_bytes_ask_for() -> None:
    decision = decide_region("s", [], [SourceInput("f", (9,) * 7)], options(1))
    assert decision.parallelism == 4
    assert decision.clamps == (Clamp("number of splits", 64, 4, 4),)


@pytest.mark.parametrize(
    ("files", "used"),
    [
        (4, 8),  # 80 / 10 beside 40 / 10: not 12, which would be 16
        (16, 16),
        (24, 32),
    ],
)
def test_a_source_beside_other_inputs_gives_a_minimum(files: int, used: int) -> None:
    decision = decide_region("r", [hash_input((2,) * 40)], [SourceInput("f", (10,) * files)], options(10))
    assert decision.parallelism == used


def test_a_default_of_sources_beside_other_inputs_is_rounded_up() -> None:
    decision = decide_region(
        "r", [hash_input((1,) * 32)], [SourceInput("f", (1,) * 9)], options(16, default_source_parallelism=5)
    )
    assert decision.clamps == (Clamp("sources", 2, 8, 8),)
    assert lengths(decision) == {4}


def test_inputs_are_cut_into_a_power_of_two_of_subpartitions() -> None:
    edges = [JobEdge("a", "b", "a", Partitioning.HASH, ("k",))]

    def cut_into(**of_b: int) -> list[int]:
        vertices = [JobVertex("a", has_source=True), JobVertex("b", **of_b)]
        return [each.subpartitions for each in build_job_graph(vertices, edges, 100, equal_ranges=True).regions]

    assert cut_into() == [100, 64]
    assert cut_into(max_parallelism=300) == [100, 256]
    assert cut_into(parallelism=100) == [100, 100]
