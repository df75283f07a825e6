"""Which subtasks wait for a slot, and what is said where they cannot."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.slots.admission import advise_bound, exceeds_slots

MIB = 2**20


def decision(parallelism: int, slots: int | None, broadcast: int = 0) -> RegionDecision:
    inputs = [BlockingInput("orders", Partitioning.HASH, ((MIB,) * 16,))]
    inputs.append(BlockingInput("customers", Partitioning.BROADCAST, ((broadcast,),)))
    options = RegionOptions(target_bytes=MIB, parallelism=parallelism, slots=slots)
    return decide_region("join", inputs, [], options)


@pytest.mark.parametrize(
    ("parallelism", "slots", "exceeds"),
    [(4, 2, True), (3, 2, False), (2, 2, False), (2, 1, False), (3, 1, True), (16, None, False)],
)
def test_one_more_than_the_slots_fits(parallelism: int, slots: int | None, exceeds: bool) -> None:
    assert exceeds_slots(decision(parallelism, slots)) == exceeds


def test_copies_of_something_large_beyond_the_slots_are_advised_on() -> None:
    assert advise_bound(decision(9, 2, broadcast=3 * MIB)) == (
        "join: 9 subtasks go at once to a Spark server of 2 slots, and each holds the broadcast inputs from then on "
        "(3.0 MiB in files, several times that in memory); give the vertex a pool of 3 slots, or leave out "
        "deferrable=False"
    )


@pytest.mark.parametrize(
    "silent", [decision(9, 2, broadcast=MIB - 1), decision(3, 2, broadcast=3 * MIB), decision(9, None, 3 * MIB)]
)
def test_small_copies_and_few_of_them_are_not(silent: RegionDecision) -> None:
    assert advise_bound(silent) is None
