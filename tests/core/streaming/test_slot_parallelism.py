"""Slots to parallelism, and when to rescale."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.streaming.rescale import EnforceMinimalIncrease, EnforceParallelismChange
from airflow_abs.core.streaming.slot_parallelism import (
    ReactiveParallelism,
    VertexDemand,
    count_required_slots,
    decide_slot_parallelism,
    default_max_parallelism,
)


def test_vertices_of_a_group_share_slots() -> None:
    groups = {"g": [VertexDemand("a", 1, 4), VertexDemand("b", 1, 2)], "h": [VertexDemand("c", 1, 3)]}
    assert count_required_slots(groups) == 7
    assert decide_slot_parallelism(groups, 7).parallelism == {"a": 4, "b": 2, "c": 3}
    assert decide_slot_parallelism(groups, 5).parallelism == {"a": 3, "b": 2, "c": 2}
    none = decide_slot_parallelism(groups, 1)
    assert none.parallelism is None
    assert none.reason == "1 slot free; 7 would serve all, at least 2 are needed"


def test_wrong_demands_are_named() -> None:
    with pytest.raises(
        InvalidValueError, match="min_parallelism of 'a': expected an integer of at least 1 and of at mo"
    ):
        VertexDemand("a", 3, 2)
    with pytest.raises(InvalidValueError, match="slot sharing group: expected at least one vertex, found none"):
        count_required_slots({"g": []})
    with pytest.raises(InvalidValueError, match="free_slots: expected an integer of at least 0, found -1"):
        decide_slot_parallelism({}, -1)


def test_small_increases_do_not_add_up() -> None:
    controller = EnforceMinimalIncrease(2)
    assert not controller.should_rescale({"a": 1, "b": 1}, {"a": 2, "b": 2})
    assert controller.should_rescale({"a": 1, "b": 1}, {"a": 3, "b": 1})
    assert controller.should_rescale({"a": 2, "b": 1}, {"a": 1, "b": 1})
    with pytest.raises(InvalidValueError, match="min_increase: expected an integer of at least 1, found 0"):
        EnforceMinimalIncrease(0)


def test_any_change_may_count() -> None:
    controller = EnforceParallelismChange()
    assert controller.should_rescale({"a": 1}, {"a": 2})
    assert not controller.should_rescale({"a": 2}, {"a": 2})
    with pytest.raises(
        InvalidValueError, match="possible parallelism: expected one of every vertex, found none of b, c"
    ):
        controller.should_rescale({"a": 1, "c": 1, "b": 1}, {"a": 1})


DEMANDS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5)


@given(DEMANDS, st.integers(0, 60))
def test_no_more_slots_are_used_than_are_free(demands: list[tuple[int, int]], free: int) -> None:
    groups = {f"g{k}": [VertexDemand(f"v{k}", low, low + more)] for k, (low, more) in enumerate(demands)}
    granted = decide_slot_parallelism(groups, free).parallelism
    if granted is None:
        assert sum(low for low, _ in demands) > free
    else:
        assert sum(granted.values()) == min(free, count_required_slots(groups))
        assert all(low <= granted[f"v{k}"] <= low + more for k, (low, more) in enumerate(demands))


def test_reactive_mode_takes_the_maximum() -> None:
    reactive = ReactiveParallelism.of(100, None)
    assert reactive.parallelism == reactive.max_parallelism == 256
    assert ReactiveParallelism.of(100, 120).parallelism == 120
    assert [reactive.can_raise_max_to(wanted) for wanted in (255, 256, 32768, 32769)] == [False, True, True, False]


def test_a_default_maximum_leaves_room_to_grow() -> None:
    # 1.5 x 100 = 150 -> 256; never below 128, never above 32768.
    assert [default_max_parallelism(p) for p in (1, 85, 100, 32768)] == [128, 128, 256, 32768]
    with pytest.raises(InvalidValueError, match="of at most 32768, found 32769"):
        default_max_parallelism(32769)
