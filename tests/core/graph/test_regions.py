"""Pipelined regions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.regions import compute_components, compute_pipelined_regions, compute_strong_components


def test_pipelined_edges_join_vertices_and_blocking_ones_order_regions() -> None:
    edges = [("c", "a", False), ("a", "b", True)]
    assert compute_pipelined_regions(["a", "b", "c"], edges) == (("c",), ("a", "b"))


def test_regions_that_wait_for_each_other_are_one() -> None:
    # v2 would wait for v1 and v4 for v2, but v1, v3 and v4 must run together.
    edges = [("v1", "v2", False), ("v1", "v3", True), ("v2", "v4", False), ("v3", "v4", True)]
    assert compute_pipelined_regions(["v1", "v2", "v3", "v4"], edges) == (("v1", "v2", "v3", "v4"),)


def test_independent_regions_keep_the_given_order() -> None:
    assert compute_pipelined_regions([3, 1, 2], []) == ((3,), (1,), (2,))
    assert compute_pipelined_regions([], []) == ()


@pytest.mark.slow
def test_a_ring_of_100000_regions_is_one() -> None:
    count = 100_000
    edges = [(node, (node + 1) % count, False) for node in range(count)]
    assert len(compute_pipelined_regions(range(count), edges)) == 1


@pytest.mark.slow
def test_a_chain_of_100000_regions_is_not() -> None:
    count = 100_000
    edges = [(node + 1, node, False) for node in range(count - 1)]
    regions = compute_pipelined_regions(range(count), edges)
    assert regions == tuple((node,) for node in reversed(range(count)))


def test_unknown_and_repeated_vertices_are_refused() -> None:
    with pytest.raises(JobGraphError, match="edge 'a' -> 'x': 'x' is not one of the vertices"):
        compute_pipelined_regions(["a"], [("a", "x", True)])
    with pytest.raises(JobGraphError, match="vertex 'a' is given twice; expected every vertex once"):
        compute_pipelined_regions(["a", "b", "a"], [])


EDGES = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=25)


@given(EDGES)
def test_regions_partition_the_vertices_and_are_acyclic(edges: list[tuple[int, int, bool]]) -> None:
    regions = compute_pipelined_regions(range(10), edges)
    assert sorted(vertex for region in regions for vertex in region) == list(range(10))
    assert all(list(region) == sorted(region) for region in regions)
    place = {vertex: index for index, region in enumerate(regions) for vertex in region}
    assert all(place[producer] <= place[consumer] for producer, consumer, _ in edges)
    assert all(place[producer] == place[consumer] for producer, consumer, pipelined in edges if pipelined)


@given(EDGES)
def test_regions_are_no_larger_than_needed(edges: list[tuple[int, int, bool]]) -> None:
    """Two vertices share a region only if pipelined edges and circles of waiting force it."""
    reach = [[one == other for other in range(10)] for one in range(10)]
    for producer, consumer, pipelined in edges:
        reach[producer][consumer] = True
        reach[consumer][producer] = reach[consumer][producer] or pipelined
    for middle in range(10):
        for one in range(10):
            for other in range(10):
                reach[one][other] = reach[one][other] or (reach[one][middle] and reach[middle][other])
    place = {v: index for index, region in enumerate(compute_pipelined_regions(range(10), edges)) for v in region}
    for one in range(10):
        for other in range(10):
            assert (place[one] == place[other]) == (reach[one][other] and reach[other][one])


def test_components_are_numbered_by_their_first_node() -> None:
    assert compute_components(5, [(4, 1), (2, 3)]) == [0, 1, 2, 2, 1]
    assert compute_strong_components([[2, 3], [0], [1], [4], []]) == [0, 0, 0, 1, 2]
