"""Whether the rows of an edge are sorted when they are written."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.decide.region_inputs import RegionOptions
from airflow_abs.core.durability.row_order import (
    MOST_READERS,
    DaysBytes,
    RowOrder,
    choose_row_order,
    expect_readers,
)
from airflow_abs.core.graph.job_graph import JobEdge, JobVertex, build_job_graph
from airflow_abs.core.graph.partitioning import Partitioning

MIB = 2**20
GIB = 2**30
JOIN = build_job_graph(
    [JobVertex("orders", has_source=True), JobVertex("customers", has_source=True), JobVertex("enriched")],
    [
        JobEdge("orders", "enriched", "orders", Partitioning.HASH, ("key",)),
        JobEdge("customers", "enriched", "customers", Partitioning.BROADCAST),
    ],
    128,
).regions[-1]


def readers(orders: int, customers: int = 0, sources: dict[str, int] | None = None, **options: Any) -> int:
    """Of a join, with a target of 128 MiB unless something else is said."""
    day = DaysBytes({"orders": orders, "customers": customers}, sources or {})
    return expect_readers(JOIN, day, RegionOptions(**{"target_bytes": 128 * MIB, **options}))


def test_six_readers_filter_and_from_seven_on_rows_are_sorted() -> None:
    assert choose_row_order(6) == RowOrder(
        False, 6, "not sorted, with 6 subtasks expected to read them: up to 6 filter for less than a sort"
    )
    assert choose_row_order(7) == RowOrder(
        True, 7, "sorted by subpartition, with 7 subtasks expected to read them, each only its own pages"
    )


def test_rows_are_sorted_if_nothing_is_known_of_the_day() -> None:
    unknown = choose_row_order(None)
    assert (unknown.is_sorted, unknown.readers) == (True, None)
    assert unknown.reason == "sorted by subpartition, because the bytes are not known"


def test_who_came_is_told_and_whether_sorting_would_have_paid() -> None:
    order = choose_row_order(1)
    assert order.describe(None) == order.reason
    assert order.reason == "not sorted, with 1 subtask expected to read them: up to 6 filter for less than a sort"
    assert order.describe(2) == f"{order.reason}; 2 came"
    assert order.describe(9) == f"{order.reason}; 9 came, for whom sorting would have paid"
    assert choose_row_order(9).describe(9).endswith("; 9 came")


def test_readers_are_what_the_decision_would_be() -> None:
    # 1 GiB at 128 MiB each; the broadcast input is not divided.
    assert readers(GIB, customers=GIB) == 8
    assert readers(GIB, parallelism=3) == 3
    assert readers(GIB, max_parallelism=5) == 5
    assert readers(0) == 1
    assert readers(0, min_parallelism=6) == 6
    # Two slots in two waves: the target grows to 256 MiB.
    assert readers(GIB, slots=2, most_waves=2) == 4
    assert readers(GIB, single_subtask_reason="a total") == 1


def test_a_source_beside_the_input_asks_for_subtasks_too() -> None:
    assert readers(0, sources={"enriched": GIB}) == 8
    assert readers(256 * MIB, sources={"enriched": GIB}) == 8


@given(st.none() | st.integers(1, 1000), st.integers(0, 1000))
def test_more_readers_never_turn_a_sorted_result_into_an_unsorted_one(few: int | None, more: int) -> None:
    if choose_row_order(few).is_sorted and few is not None:
        assert choose_row_order(few + more).is_sorted
    assert choose_row_order(few).is_sorted == (few is None or few > MOST_READERS)


@given(
    st.integers(0, 300 * GIB),
    st.integers(0, 300 * GIB),
    st.none() | st.integers(1, 64),
    st.sampled_from([None, 2]),
    st.integers(1, 128),
)
def test_more_bytes_never_turn_a_sorted_result_into_an_unsorted_one(
    size: int, more: int, slots: int | None, waves: int | None, most: int
) -> None:
    options: dict[str, Any] = {"slots": slots, "most_waves": waves, "max_parallelism": most}
    if choose_row_order(readers(size, **options)).is_sorted:
        assert choose_row_order(readers(size + more, **options)).is_sorted
