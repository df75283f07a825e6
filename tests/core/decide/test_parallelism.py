"""Two rules for the number of subtasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.decision import Clamp
from airflow_abs.core.decide.parallelism import (
    BalancedRule,
    Bounds,
    InputVolume,
    ParallelismRule,
    PowerOfTwoRule,
    bounds_of_vertex,
    default_max_parallelism,
    normalise_bounds,
    power_of_two_from,
    power_of_two_up_to,
    resolve_max_parallelism,
    round_to_power_of_two,
)
from airflow_abs.core.errors import InvalidValueError

RULES: list[ParallelismRule] = [BalancedRule(100), PowerOfTwoRule(100)]


def test_balanced_divides_and_rounds_up() -> None:
    decision = BalancedRule(100).decide(InputVolume(301, broadcast=10**6), Bounds(1, 128))
    assert (decision.parallelism, decision.clamps) == (4, ())
    assert decision.reason == "301 B at a target of 100 B"


def test_balanced_is_exact_beyond_floating_point() -> None:
    assert BalancedRule(3).decide(InputVolume(3 * 10**17 + 1), Bounds(1, 10**18)).parallelism == 10**17 + 1


def test_every_bound_that_works_is_noted() -> None:
    assert BalancedRule(1).decide(InputVolume(50), Bounds(1, 8)).clamps == (Clamp("max_parallelism", 50, 8, 8),)
    assert BalancedRule(1).decide(InputVolume(0), Bounds(3, 8)).clamps == (Clamp("min_parallelism", 0, 3, 3),)


def test_power_of_two_sets_broadcast_bytes_aside_up_to_half() -> None:
    decision = PowerOfTwoRule(100).decide(InputVolume(600, broadcast=70), Bounds(1, 128))
    # 600 / (100 - 50) = 12: the midpoint between 8 and 16 goes up.
    assert (decision.initial, decision.parallelism) == (12, 16)
    assert decision.reason == "600 B at a target of 50 B is 12 (50 B of the target set aside for broadcast inputs)"


def test_bounds_of_the_first_generation_are_powers_of_two() -> None:
    assert normalise_bounds(Bounds(3, 100)) == Bounds(4, 64)
    with pytest.raises(InvalidValueError, match="min_parallelism 5 and max_parallelism 7: expected a power of two"):
        normalise_bounds(Bounds(5, 7))


def test_the_maximum_of_a_vertex_lowers_both_bounds() -> None:
    assert bounds_of_vertex(Bounds(16, 128), vertex_max=8) == Bounds(8, 8)
    assert bounds_of_vertex(Bounds(2, 128), vertex_min=4, vertex_max=256) == Bounds(4, 128)
    assert bounds_of_vertex(Bounds(2, 128)) == Bounds(2, 128)
    with pytest.raises(InvalidValueError, match="max_parallelism of the vertex: expected an integer of at least 1"):
        bounds_of_vertex(Bounds(1, 2), vertex_max=0)


def test_the_maximum_falls_back_to_the_default_parallelism_then_to_128() -> None:
    assert [resolve_max_parallelism(*given) for given in ((64, 5), (None, 5), (None, None))] == [64, 5, 128]


def test_a_default_maximum_leaves_room_to_grow() -> None:
    # 1.5 x 100 = 150 -> 256; never below 128, never above 32768.
    assert [default_max_parallelism(p) for p in (1, 85, 100, 32768)] == [128, 128, 256, 32768]
    with pytest.raises(InvalidValueError, match="of at most 32768, found 32769"):
        default_max_parallelism(32769)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Bounds(0, 1), "min_parallelism: expected an integer of at least 1, found 0"),
        (lambda: Bounds(1, True), "max_parallelism: expected an integer of at least 1, found True"),
        (lambda: Bounds(9, 8), "min_parallelism 9 exceeds max_parallelism 8; expected at most 8"),
        (lambda: InputVolume(-1), "partitioned bytes: expected an integer of at least 0, found -1"),
        (lambda: InputVolume(1, float("nan")), "broadcast bytes: expected an integer of at least 0, found nan"),
        (lambda: BalancedRule(0), "target_bytes: expected an integer of at least 1, found 0"),
        (lambda: PowerOfTwoRule(-5), "target_bytes: expected an integer of at least 1, found -5"),
        (lambda: resolve_max_parallelism(0, 5), "max_parallelism: expected an integer of at least 1, found 0"),
        (lambda: resolve_max_parallelism(None, -3), "default parallelism: expected an integer of at least 1, found -3"),
        (lambda: power_of_two_from(-1), "number: expected an integer of at least 0, found -1"),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()  # type: ignore[operator]


@given(st.integers(0, 10**6))
def test_the_closest_power_of_two_is_a_neighbour(number: int) -> None:
    down, up = power_of_two_up_to(number), power_of_two_from(number)
    assert down <= number <= up
    assert round_to_power_of_two(number) in (down, up)
    assert 0.75 * round_to_power_of_two(number) <= number or number == round_to_power_of_two(number)


@given(st.sampled_from(RULES), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 6), st.integers(0, 6))
def test_answers_lie_within_the_bounds(rule: ParallelismRule, size: int, broadcast: int, low: int, more: int) -> None:
    bounds = Bounds(2**low, 2 ** (low + more))
    assert bounds.lower <= rule.decide(InputVolume(size, broadcast), bounds).parallelism <= bounds.upper
