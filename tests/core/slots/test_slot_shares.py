"""Several pools, one cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.slot_shares import divide_slots

demands = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 400), min_size=1)


def test_two_that_ask_for_more_than_there_is_get_half_each() -> None:
    assert divide_slots(4, {"a": 150, "b": 150}) == {"a": 2, "b": 2}
    assert divide_slots(5, {"b": 150, "a": 150}) == {"a": 3, "b": 2}


def test_who_asks_for_little_gets_it_and_the_others_have_the_rest() -> None:
    assert divide_slots(10, {"a": 1, "b": 50, "c": 50}) == {"a": 1, "b": 5, "c": 4}


def test_what_nobody_asks_for_is_there_for_everybody() -> None:
    assert divide_slots(8, {"a": 3, "b": 0}) == {"a": 6, "b": 2}  # 5 are left: 3 and 2
    assert divide_slots(2, {"a": 0, "b": 0}) == {"a": 1, "b": 1}


def test_nobody_who_asks_has_none_unless_there_is_none() -> None:
    assert divide_slots(1, {"a": 5, "b": 5, "c": 0}) == {"a": 1, "b": 1, "c": 0}
    assert divide_slots(0, {"a": 5, "b": 5}) == {"a": 0, "b": 0}


def test_no_pool_gets_nothing() -> None:
    assert divide_slots(4, {}) == {}


def test_a_capacity_below_zero_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="capacity"):
        divide_slots(-1, {"a": 1})


@given(st.integers(0, 300), demands)
def test_together_they_have_what_the_cluster_has(capacity: int, asked: dict[str, int]) -> None:
    shares = divide_slots(capacity, asked)
    assert set(shares) == set(asked)
    if capacity >= sum(number > 0 for number in asked.values()):
        assert sum(shares.values()) == capacity
    assert sum(min(shares[name], asked[name]) for name in asked) >= min(capacity, sum(asked.values()))


@given(st.integers(1, 300), demands)
def test_who_gets_less_than_asked_for_gets_as_much_as_anybody(capacity: int, asked: dict[str, int]) -> None:
    shares = divide_slots(capacity, asked)
    short = [shares[name] for name in asked if shares[name] < asked[name]]
    assert not short or min(short) >= max(shares.values()) - 1
