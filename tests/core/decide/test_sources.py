"""Parallelism of sources, and who reads which split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.sources import (
    SourceContext,
    assign_splits,
    decide_source_parallelism,
    default_source_parallelism,
    infer_parallelism,
    merge_inferred,
    resolve_default_source_parallelism,
    source_upper_bound,
)
from airflow_abs.core.errors import InvalidValueError


def test_the_upper_bound_is_the_default_source_parallelism_within_the_vertex() -> None:
    assert source_upper_bound(10, 100, 256) == 10
    assert source_upper_bound(None, 100, 256) == 100
    assert source_upper_bound(150, 100, 120) == 120
    assert resolve_default_source_parallelism(None, 7) == 7
    with pytest.raises(
        InvalidValueError, match="default_source_parallelism: expected an integer of at least 1, found 0"
    ):
        default_source_parallelism(0)
    assert [default_source_parallelism(None), default_source_parallelism(5)] == [1, 5]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], 1),
        ([0, 0], 1),
        ([100], 1),
        ([60, 60, 60], 2),
        ([100] * 9, 4),  # the upper bound
        ([1000, 1], 2),  # one subtask per split at most
    ],
)
def test_a_source_asks_for_a_subtask_per_target(sizes: list[int], expected: int) -> None:
    assert infer_parallelism(sizes, SourceContext(upper_bound=4, bytes_per_subtask=100)) == expected


def test_the_largest_answer_of_several_sources_counts() -> None:
    assert merge_inferred([3, -1, 7], 128) == 7
    assert merge_inferred([300], 128) == 128
    assert merge_inferred([0, -1], 128) is None
    assert merge_inferred([], 128) is None


def test_the_user_precedes_inference_precedes_the_bound() -> None:
    assert decide_source_parallelism(8, 3, 10).describe().splitlines() == [
        "fixed: parallelism 8 set by the user",
        "  parallelism: 8",
        "  inferred: 3",
        "  upper_bound: 10",
    ]
    assert decide_source_parallelism(None, 3, 10).parallelism == 3
    assert decide_source_parallelism(None, None, 10).parallelism == 10
    with pytest.raises(InvalidValueError, match="parallelism: expected an integer of at least 1, found 0"):
        decide_source_parallelism(0, 3, 10)


def test_a_context_names_what_is_wrong() -> None:
    with pytest.raises(InvalidValueError, match="upper_bound: expected an integer of at least 1, found 0"):
        SourceContext(0, 1)
    with pytest.raises(InvalidValueError, match="bytes_per_subtask: expected an integer of at least 1, found 0"):
        SourceContext(1, 0)


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
