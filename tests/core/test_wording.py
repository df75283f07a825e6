"""Words and numbers for people."""

from __future__ import annotations

import pytest

from airflow_abs.core.decide.parallelism import Clamp, apply_bound
from airflow_abs.core.wording import format_bytes, format_count, format_indexes


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


def test_counts_agree_with_their_noun() -> None:
    assert [format_count(count, "subtask") for count in (0, 1, 1024)] == ["0 subtasks", "1 subtask", "1,024 subtasks"]


def test_indexes_that_follow_each_other_are_a_range() -> None:
    assert [format_indexes(each) for each in ([], [3], [0, 1, 2, 7], [0, 2, 4, 5])] == ["", "3", "0-2, 7", "0, 2, 4-5"]


def test_a_bound_is_noted_only_if_it_changes_something() -> None:
    clamps: list[Clamp] = []
    assert apply_bound("min", 5, 3, clamps, lower=True) == 5
    assert apply_bound("max", 5, 8, clamps, lower=False) == 5
    assert not clamps
    assert apply_bound("max", 5, 2, clamps, lower=False) == 2
    assert apply_bound("min", 2, 4, clamps, lower=True) == 4
    assert [str(clamp) for clamp in clamps] == ["max 2: decided 5, used 2", "min 4: decided 2, used 4"]
    assert [Clamp.from_json(clamp.to_json()) for clamp in clamps] == clamps
