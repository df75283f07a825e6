"""Who reads which split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.sources import assign_splits


def test_splits_go_largest_first_to_the_least_loaded() -> None:
    # 9 -> 0, 5 -> 1, 4 (of b) -> 1; equal loads of 9: 1 (of a) -> 0.
    assert assign_splits({"a": [1, 9], "b": [5, 4]}, [0, 0]) == [
        {"a": (0, 1), "b": ()},
        {"a": (), "b": (0, 1)},
    ]


def test_loads_that_are_there_already_count() -> None:
    assert assign_splits({"a": [3, 3]}, [10, 0]) == [{"a": ()}, {"a": (0, 1)}]


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(1, 6))
def test_every_split_is_read_once_and_loads_are_close(sizes: list[int], subtasks: int) -> None:
    assigned = [picked["f"] for picked in assign_splits({"f": sizes}, [0] * subtasks)]
    assert sorted(index for picked in assigned for index in picked) == list(range(len(sizes)))
    loads = [sum(sizes[index] for index in picked) for picked in assigned]
    assert max(loads) - min(loads) <= max(sizes, default=0)
