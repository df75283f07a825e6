"""Inputs and options of a region are checked at the door."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.graph.partitioning import Partitioning


def hash_input(*rows: tuple[int, ...], name: str = "orders") -> BlockingInput:
    return BlockingInput(name, Partitioning.HASH, rows)


def broadcast_input(size: int, name: str = "customers") -> BlockingInput:
    return BlockingInput(name, Partitioning.BROADCAST, ((size,),))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RegionOptions(0), "target_bytes: expected an integer of at least 1, found 0"),
        (lambda: RegionOptions(True), r"target_bytes: expected an integer of at least 1, found True \(bool\)"),
        (lambda: RegionOptions(1, min_parallelism=9, max_parallelism=8), "min_parallelism 9 exceeds max_parallelism 8"),
        (lambda: RegionOptions(1, strategy="best"), "strategy: expected 'balanced' or 'power_of_two', found 'best'"),
        (lambda: RegionOptions(1, parallelism=0), "parallelism: expected an integer of at least 1, found 0"),
        (lambda: hash_input((1, -2)), r"input 'orders'\[0\]\[1\]: expected an integer of at least 0, found -2"),
        (lambda: hash_input((1, True)), r"input 'orders'\[0\]\[1\]: expected an integer of at least 0, found True"),
        (
            lambda: hash_input((1, 2), (1,)),
            "expected every partition to have 2 subpartitions as partition 0 has, found 1",
        ),
        (hash_input, "input 'orders': expected at least one partition and one subpartition, found none"),
        (
            lambda: BlockingInput("b", Partitioning.BROADCAST, ((1, 2),)),
            "expected 1 subpartition of a broadcast result",
        ),
        (lambda: BlockingInput("b", Partitioning.FORWARD, ((1,),)), "forward edges stay inside a region"),
        (
            lambda: SourceInput("f", (1, 1.5)),
            r"source 'f'\[1\]: expected an integer of at least 0, found 1.5 \(float\)",
        ),
        (
            lambda: decide_region(
                "r", [hash_input((1,), name="a"), hash_input((1, 2), name="b")], [], RegionOptions(1)
            ),
            "inputs that are read in the same ranges: expected the same number for all, found a 1, b 2",
        ),
        (
            lambda: decide_region("r", [hash_input((1,)), broadcast_input(1, "orders")], [], RegionOptions(1)),
            "region 'r': expected distinct input names, found orders, orders",
        ),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()  # type: ignore[operator]
