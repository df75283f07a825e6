"""Forward groups share one parallelism."""

from __future__ import annotations

import pytest

from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.forward_groups import JobParallelism, compute_forward_groups, spread_parallelism


def test_two_forward_inputs_merge_into_one_group() -> None:
    assert compute_forward_groups(["a", "b", "c", "d"], [("a", "c"), ("b", "c")]) == [("a", "b", "c")]


def test_edges_of_unknown_vertices_are_refused() -> None:
    with pytest.raises(JobGraphError, match="edge 'a' -> 'x': 'x' is none of the vertices"):
        compute_forward_groups(["a"], [("a", "x")])
    with pytest.raises(JobGraphError, match="edge 'x' -> 'a': 'x' is none of the vertices"):
        JobParallelism({"a": None}, [("x", "a")], [], lambda _: 1)


def test_a_parallelism_given_to_one_member_holds_for_all() -> None:
    given = {"a": None, "b": 8, "c": None, "d": None}
    assert spread_parallelism([("a", "b"), ("c", "d")], given) == {"a": 8, "b": 8, "c": None, "d": None}


def test_two_parallelisms_in_one_group_are_refused() -> None:
    with pytest.raises(JobGraphError, match="expected one parallelism, found a 2, b 3"):
        spread_parallelism([("a", "b")], {"a": 2, "b": 3})


def test_the_first_decided_member_decides_for_the_others() -> None:
    job = JobParallelism(
        {"source": 6, "map": None, "sink": None},
        [("source", "map"), ("map", "sink")],
        [("map", "sink")],
        {"map": 5, "sink": 10}.__getitem__,
    )
    assert job["map"] is None
    assert job.finish("source") == {"map": 5}
    assert job["sink"] is None
    assert job.finish("map") == {"sink": 5}
    assert job.finish("sink") == {}


def test_a_vertex_waits_for_all_its_producers() -> None:
    job = JobParallelism({"a": 1, "b": 2, "c": None}, [("a", "c"), ("b", "c")], [], lambda _: 7)
    assert job.finish("a") == {}
    assert job.finish("b") == {"c": 7}
    with pytest.raises(InvalidValueError, match="expected a vertex of this job, found 'x'"):
        job.finish("x")
