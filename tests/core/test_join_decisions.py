"""Joins: broadcast or not, skewed or not."""

from __future__ import annotations

import pytest

from airflow_abs.core.broadcast_join import decide_broadcast_join
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.joins import JoinSide, JoinSides, JoinType, broadcastable_sides, splittable_sides
from airflow_abs.core.skewed_join import SkewedJoinStrategy, SkewOptions, compute_median, decide_skewed_join

SKEW = SkewOptions(factor=2, threshold_bytes=10)


@pytest.mark.parametrize(
    ("join", "left", "right"),
    [
        ("INNER", True, True),
        ("LEFT", True, False),
        ("SEMI", True, False),
        ("ANTI", True, False),
        ("RIGHT", False, True),
        ("FULL", False, False),
    ],
)
def test_sides_that_may_be_split_and_broadcast_mirror_each_other(join: str, left: bool, right: bool) -> None:
    assert splittable_sides(JoinType(join)) == JoinSides(left, right)
    assert broadcastable_sides(JoinType(join)) == JoinSides(right, left)


def test_one_small_finished_side_is_enough() -> None:
    decision = decide_broadcast_join(JoinType.INNER, None, 99, 100)
    assert (decision.broadcast, decision.build_side) == (True, JoinSide.RIGHT)
    assert decision.reason == "right side of 99 B is below 100 B"


def test_a_small_side_that_may_not_be_broadcast_waits_for_the_other() -> None:
    decision = decide_broadcast_join(JoinType.LEFT, 1, None, 100)
    assert decision.must_wait
    assert decision.reason == "wait for the other side"


def test_two_large_sides_stay_shuffled() -> None:
    decision = decide_broadcast_join(JoinType.INNER, 100, 200, 100)
    assert (decision.broadcast, decision.build_side) == (False, JoinSide.LEFT)
    assert decision.reason == "no side that may be broadcast is below 100 B"
    assert not decision.must_wait


def test_negative_bytes_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="left bytes: expected an integer of at least 0, found -1"):
        decide_broadcast_join(JoinType.INNER, -1, None, 100)
    with pytest.raises(InvalidValueError, match=r"threshold_bytes: expected an integer, found True \(bool\)"):
        decide_broadcast_join(JoinType.INNER, 1, None, True)


def test_a_skewed_side_is_released_if_the_join_allows() -> None:
    decision = decide_skewed_join(JoinType.LEFT, [10, 10, 90], [10, 10, 90], SKEW)
    assert decision.release == JoinSides(True, False)
    assert (decision.left_threshold, decision.right_threshold) == (20, 20)
    assert decision.reason == "skewed and spreadable: left"
    assert decision.to_json() == {
        "rule": "skewed_join",
        "reason": "skewed and spreadable: left",
        "release": {"left": True, "right": False},
        "join": "LEFT",
        "options": {"factor": 2, "threshold_bytes": 10},
        "left_largest": 90,
        "left_threshold": 20,
        "right_largest": 90,
        "right_threshold": 20,
    }
    assert decide_skewed_join(JoinType.FULL, [90, 1, 1], [1], SKEW).reason == "no skewed side that FULL may spread"


@pytest.mark.parametrize(
    ("strategy", "extra_shuffle", "broadcast", "reason"),
    [
        ("none", False, False, "strategy none"),
        ("auto", True, False, "strategy auto adds no shuffle"),
        ("forced", True, True, "already a broadcast join"),
        ("forced", True, False, "skewed and spreadable: left and right"),
    ],
)
def test_the_strategy_may_refuse(strategy: str, extra_shuffle: bool, broadcast: bool, reason: str) -> None:
    decision = decide_skewed_join(
        JoinType.INNER,
        [10, 10, 90],
        [10, 10, 90],
        SKEW,
        strategy=SkewedJoinStrategy(strategy),
        needs_extra_shuffle=extra_shuffle,
        is_broadcast=broadcast,
    )
    assert decision.reason == reason
    assert decision.release.left == reason.startswith("skewed")


def test_wrong_values_are_named() -> None:
    with pytest.raises(InvalidValueError, match="median: expected at least one size, found none"):
        compute_median([])
    with pytest.raises(InvalidValueError, match="skew factor: expected a number of at least 0, found nan"):
        SkewOptions(factor=float("nan"))
    with pytest.raises(InvalidValueError, match="skew threshold: expected an integer of at least 0, found -1"):
        SkewOptions(threshold_bytes=-1)
