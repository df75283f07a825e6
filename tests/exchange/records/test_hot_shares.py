"""Shares of what one producer wrote, in the records: of which attempt they are, and what older versions make of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.slices import Slice, cut_slices

INPUTS = [
    BlockingInput("joined.orders", Partitioning.HASH, [[20, 20, 20, 20], [0, 600, 0, 0]]),
    BlockingInput("joined.names", Partitioning.HASH, [[5, 5, 5, 5]]),
]
STORED = StoredDecision(
    plan="plan",
    decision=decide_region("joined", INPUTS, [], RegionOptions(100, splittable=("joined.orders",))),
    files={},
    producers={"orders": 2, "names": 1},
    producer_decisions={"orders": "a", "names": "b"},
    measured={entry.name: entry.bytes_by_subpartition() for entry in INPUTS},
    measured_by_producer={"joined.orders": INPUTS[0].bytes_by_partition},
    cut_attempts={"joined.orders": [1, 3]},
)


def stored(value: Any) -> Any:
    return json.loads(json.dumps(value))


def test_a_share_is_of_the_attempt_that_was_decided_about() -> None:
    assert StoredDecision.from_json(stored(STORED.to_json()), where="here") == STORED
    assert replace(STORED, cut_attempts={"joined.orders": [1, 4]}).digest != STORED.digest
    slices = cut_slices(STORED)
    shares = [each for each in slices if each.hot_part and each.hot_part.share]
    assert {(each.hot_part.share.producer, each.cut_attempt) for each in shares if each.hot_part.share} == {(1, 3)}  # type: ignore[union-attr]
    assert {each.cut_attempt for each in slices if each not in shares} == {None}
    assert [Slice.from_json(stored(each.to_json()), where="here") for each in slices] == slices


def test_a_share_of_no_attempt_is_damaged() -> None:
    without = {name: value for name, value in STORED.to_json().items() if name != "cut_attempts"}
    with pytest.raises(DamagedFileError, match=r"it does not say of which attempt share 0 of . of producer 1 of"):
        StoredDecision.from_json(stored(without), where="here")
    share = next(each.to_json() for each in cut_slices(STORED) if each.hot_part and each.hot_part.share)
    with pytest.raises(DamagedFileError, match=r"it does not say from which attempt it reads share 0 of"):
        Slice.from_json(stored({**share, "cut_attempt": None}), where="here")
    both = {**share["hot_part"], "producers": {"start": 0, "stop": 1}}
    with pytest.raises(DamagedFileError, match="its part of a hot subpartition is of producers"):
        Slice.from_json(stored({**share, "hot_part": both}), where="here")


def test_who_knows_of_no_shares_cannot_take_one_for_all_that_its_producer_wrote() -> None:
    """Fields that an older version does not know are passed over: what it does know is not there."""
    shares = [part for part in STORED.to_json()["decision"]["hot_parts"] if "share" in part]
    assert len(shares) > 1
    assert {part["producers"] for part in shares} == {None}
    assert {each.to_json()["hot_part"]["producers"] for each in cut_slices(STORED) if each.cut_attempt} == {None}
