"""When a wait for resources is over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.resource_wait import Resources, ResourceWait, WaitOptions

DESIRED, SUFFICIENT, INSUFFICIENT = Resources.DESIRED, Resources.SUFFICIENT, Resources.INSUFFICIENT

STABLE = "sufficient resources were stable"
TIMED_OUT = "the resource timeout has passed"


@pytest.fixture
def wait() -> ResourceWait:
    return ResourceWait(WaitOptions(resource_timeout=300, stabilization=10), now=0)


def test_desired_resources_end_the_wait_at_once(wait: ResourceWait) -> None:
    assert wait.look(5, DESIRED) == "desired resources are there"


def test_sufficient_resources_end_it_when_they_were_stable(wait: ResourceWait) -> None:
    assert wait.look(0, SUFFICIENT) is None
    assert wait.next_look_at == 10
    assert wait.look(9, SUFFICIENT) is None
    assert wait.look(10, SUFFICIENT) == STABLE


def test_desired_resources_end_it_while_sufficient_ones_settle(wait: ResourceWait) -> None:
    assert [wait.look(0, SUFFICIENT), wait.look(1, DESIRED)] == [None, "desired resources are there"]


def test_sufficient_resources_without_stabilization_end_it_at_once() -> None:
    assert ResourceWait(WaitOptions(300, 0), now=0).look(1, SUFFICIENT) == STABLE


def test_a_lapse_starts_the_stabilization_anew(wait: ResourceWait) -> None:
    looks = [(0, SUFFICIENT), (5, INSUFFICIENT), (9, SUFFICIENT), (18, SUFFICIENT)]
    assert [wait.look(now, resources) for now, resources in looks] == [None] * 4
    assert wait.next_look_at == 19
    assert wait.look(19, SUFFICIENT) == STABLE


@pytest.mark.parametrize("resources", [SUFFICIENT, INSUFFICIENT])
def test_the_resource_timeout_ends_it_with_whatever_is_there(resources: Resources) -> None:
    wait = ResourceWait(WaitOptions(resource_timeout=300, stabilization=1000), now=7)
    assert wait.next_look_at == 307
    assert wait.look(306, resources) is None
    assert wait.look(307, resources) == TIMED_OUT


def test_a_negative_timeout_never_passes() -> None:
    wait = ResourceWait(WaitOptions(resource_timeout=-1, stabilization=10), now=0)
    assert wait.look(10**9, INSUFFICIENT) is None
    assert wait.next_look_at is None


def test_durations_are_checked() -> None:
    with pytest.raises(InvalidValueError, match="resource_timeout: expected a number, found nan"):
        WaitOptions(resource_timeout=float("nan"))
    with pytest.raises(InvalidValueError, match="stabilization: expected a number of at least 0, found -1"):
        WaitOptions(stabilization=-1)


@given(st.lists(st.tuples(st.sampled_from([SUFFICIENT, INSUFFICIENT]), st.integers(0, 20)), max_size=30))
def test_whoever_looks_when_told_misses_no_end(changes: list[tuple[Resources, int]]) -> None:
    """Looking at `next_look_at` alone gives the same end as looking all the time."""
    options = WaitOptions(resource_timeout=60, stabilization=7)
    lazy, eager = ResourceWait(options, 0), ResourceWait(options, 0)
    now = 0
    for resources, seconds in changes:
        reason = lazy.look(now, resources)
        assert eager.look(now, resources) == reason
        if reason is not None:
            return
        end, now = now + seconds, now + seconds
        for at in range(end - seconds, end + 1):
            told = lazy.next_look_at == at and lazy.look(at, resources)
            assert (eager.look(at, resources) or False) == told
            if told:
                return
    assert now < 60
