"""Words and numbers for people."""

from __future__ import annotations

import json

import pytest

from airflow_abs.core.decide.decision import Clamp, Decision, apply_bound, to_plain
from airflow_abs.core.decide.parallelism import BalancedRule, Bounds, InputVolume
from airflow_abs.core.wording import format_bytes, format_count


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),  # 1024.0 KiB would read odd
        (int(3.4 * 2**30), "3.4 GiB"),
        (2**70, "1024.0 EiB"),
    ],
)
def test_bytes_are_shown_in_binary_units(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_a_decision_is_plain_values_and_words() -> None:
    decision = BalancedRule(100).decide(InputVolume(301), Bounds(1, 2))
    assert isinstance(decision, Decision)
    assert json.loads(json.dumps(decision.to_json())) == decision.to_json()
    assert decision.describe().splitlines() == [
        "balanced: 301 B at a target of 100 B",
        "  volume: {'partitioned': 301, 'broadcast': 0}",
        "  bounds: {'lower': 1, 'upper': 2}",
        "  initial: 4",
        "  parallelism: 2",
        "  clamps: [{'name': 'max_parallelism', 'decided': 4, 'bound': 2, 'used': 2}]",
    ]
    assert to_plain({1: ("a", 2.5)}) == {"1": ["a", 2.5]}


def test_counts_agree_with_their_noun() -> None:
    assert [format_count(count, "subtask") for count in (0, 1, 1024)] == ["0 subtasks", "1 subtask", "1,024 subtasks"]


def test_a_bound_is_noted_only_if_it_changes_something() -> None:
    clamps: list[Clamp] = []
    assert apply_bound("min", 5, 3, clamps, lower=True) == 5
    assert apply_bound("max", 5, 8, clamps, lower=False) == 5
    assert not clamps
    assert apply_bound("max", 5, 2, clamps, lower=False) == 2
    assert apply_bound("min", 2, 4, clamps, lower=True) == 4
    assert [str(clamp) for clamp in clamps] == ["max 2: decided 5, used 2", "min 4: decided 2, used 4"]
    assert [Clamp.from_json(clamp.to_json()) for clamp in clamps] == clamps
