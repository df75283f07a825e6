"""Slots distributed between runs, as events in and actions out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.slots.slot_pool import Grant, Refuse, SlotAction, SlotDemand, SlotPool

WAIT = WaitOptions(resource_timeout=300, stabilization=10)
AT_ONCE = "desired resources are there"
STABLE = "sufficient resources were stable"


def demand(run: str, wanted: int = 1, wait: WaitOptions = WAIT) -> SlotDemand:
    return SlotDemand(run, wanted, wait)


def pool_of(slots: int) -> SlotPool:
    pool = SlotPool()
    assert pool.set_capacity(slots, 0) == []
    return pool


def enter(pool: SlotPool, run: str, *, wanted: int = 1, now: float = 0) -> tuple[int, list[SlotAction]]:
    return pool.enter(demand(run, wanted), now)


def test_slots_go_to_who_came_first_and_on_to_the_next_when_given_back() -> None:
    pool = pool_of(2)
    granted = [enter(pool, "a") for _ in range(4)]
    assert granted == [(1, [Grant(1, AT_ONCE)]), (2, [Grant(2, AT_ONCE)]), (3, []), (4, [])]
    assert (pool.in_use, pool.waiting) == (2, 2)
    assert pool.explain(4) == "2 of 2 slots in use, 2 by this run; 1 of this run before it"
    assert pool.leave(2, 1) == [Grant(3, AT_ONCE)]
    assert pool.leave(1, 2) == [Grant(4, AT_ONCE)]
    assert pool.leave(3, 3) == []
    assert not pool.is_empty
    assert pool.leave(4, 4) == []
    assert pool.is_empty


def test_the_next_slot_goes_to_the_run_that_holds_fewest() -> None:
    pool = pool_of(2)
    for _ in range(4):
        enter(pool, "large")  # 1 and 2 have slots, 3 and 4 wait
    small = [enter(pool, "small")[0] for _ in range(2)]
    assert small == [5, 6]
    assert pool.leave(1, 1) == [Grant(5, AT_ONCE)]  # small holds none
    assert pool.leave(2, 2) == [Grant(3, AT_ONCE)]  # now large holds none
    assert pool.leave(5, 3) == [Grant(6, AT_ONCE)]
    assert pool.leave(6, 4) == [Grant(4, AT_ONCE)]


def test_of_runs_that_hold_equally_many_the_one_that_waits_longer_is_first() -> None:
    pool = pool_of(1)
    for run in ("a", "b", "c"):
        enter(pool, run)
    assert pool.leave(1, 1) == [Grant(2, AT_ONCE)]
    assert pool.leave(2, 2) == [Grant(3, AT_ONCE)]


def test_who_stops_waiting_leaves_no_hole() -> None:
    pool = pool_of(1)
    for _ in range(3):
        enter(pool, "a")
    assert pool.leave(2, 1) == []
    assert pool.leave(1, 2) == [Grant(3, AT_ONCE)]


def test_slots_that_come_are_given_at_once_and_those_that_go_are_not_taken_from_anybody() -> None:
    pool = pool_of(1)
    for _ in range(4):
        enter(pool, "a")
    assert pool.set_capacity(3, 1) == [Grant(2, AT_ONCE), Grant(3, AT_ONCE)]
    assert pool.set_capacity(1, 2) == []
    assert pool.in_use == 3
    assert [pool.leave(1, 3), pool.leave(2, 4), pool.leave(3, 5)] == [[], [], [Grant(4, AT_ONCE)]]


def test_what_runs_already_has_its_slot_also_beyond_the_capacity() -> None:
    pool = pool_of(1)
    assert [pool.take_over(demand("a"), 0) for _ in range(2)] == [1, 2]
    assert enter(pool, "a") == (3, [])
    assert pool.leave(1, 1) == []
    assert pool.leave(2, 2) == [Grant(3, AT_ONCE)]


def test_a_run_that_wants_more_slots_than_there_are_begins_when_fewer_were_stable() -> None:
    pool = pool_of(1)
    assert enter(pool, "a", wanted=2) == (1, [])
    assert pool.explain(1) == "the cluster has 1 slot, 2 wanted"
    assert pool.next_timer_at == 10
    assert pool.tick(9) == []
    assert pool.tick(10) == [Grant(1, STABLE)]
    # and is content with them from then on, in its next region too
    assert pool.leave(1, 11) == []
    assert enter(pool, "a", wanted=2, now=12) == (2, [Grant(2, AT_ONCE)])


def test_slots_that_come_while_it_waits_for_more_let_it_begin() -> None:
    pool = pool_of(1)
    enter(pool, "a", wanted=2)
    assert pool.set_capacity(2, 5) == [Grant(1, AT_ONCE)]


def test_a_moment_without_any_slot_is_not_stable() -> None:
    pool = pool_of(1)
    enter(pool, "a", wanted=2)
    assert [pool.set_capacity(0, 5), pool.set_capacity(1, 6), pool.tick(10)] == [[], [], []]
    assert pool.next_timer_at == 16
    assert pool.tick(16) == [Grant(1, STABLE)]


def test_without_any_slot_it_is_refused_after_the_resource_timeout() -> None:
    pool = SlotPool()
    assert enter(pool, "a", wanted=2) == (1, [])
    assert pool.explain(1) == "the cluster has no slot, 2 wanted"
    assert pool.tick(299) == []
    reason = "no slot within 300 s, 2 wanted"
    assert pool.tick(300) == [Refuse(1, reason)]
    assert pool.is_empty


def test_slots_in_use_by_others_are_waited_for_without_end() -> None:
    pool = pool_of(1)
    enter(pool, "a")
    enter(pool, "b")
    assert pool.tick(1_000_000) == []
    assert pool.leave(1, 1_000_001) == [Grant(2, AT_ONCE)]


def test_a_cluster_that_loses_all_slots_is_waited_for_anew() -> None:
    pool = pool_of(1)
    enter(pool, "a")
    enter(pool, "a")
    assert pool.set_capacity(0, 1000) == []
    assert pool.leave(1, 1001) == []
    assert pool.set_capacity(0, 1002) == []  # the clock does not start again
    assert pool.tick(1299) == []
    assert pool.set_capacity(1, 1299.5) == [Grant(2, AT_ONCE)]
    pool.set_capacity(0, 1300)
    assert pool.tick(1600) == []  # nobody waits; what runs goes on
    assert enter(pool, "a", now=1700) == (3, [])  # and who comes then has all the time again
    assert pool.tick(1999) == []
    assert pool.tick(2000) == [Refuse(3, "no slot within 300 s, 1 wanted")]


def test_a_negative_resource_timeout_never_passes() -> None:
    pool = SlotPool()
    pool.enter(demand("a", wait=WaitOptions(resource_timeout=-1)), 0)
    assert pool.tick(1_000_000) == []
    assert pool.next_timer_at is None


def test_a_wrong_demand_or_ticket_is_named() -> None:
    with pytest.raises(InvalidValueError, match="wanted: expected an integer of at least 1, found 0"):
        demand("a", 0)
    with pytest.raises(InvalidValueError, match="slots: expected an integer of at least 0, found -1"):
        SlotPool().set_capacity(-1, 0)
    with pytest.raises(InvalidValueError, match="ticket 7: expected one that is in the pool, found none"):
        SlotPool().leave(7, 0)


events = st.lists(
    st.one_of(
        st.tuples(st.just("enter"), st.sampled_from("abc")),
        st.tuples(st.just("leave"), st.integers(0, 30)),
        st.tuples(st.just("capacity"), st.integers(0, 4)),
        st.tuples(st.just("tick"), st.integers(1, 200)),
    ),
    max_size=60,
)


@given(events)
def test_never_more_than_the_capacity_first_come_first_served_and_nobody_is_forgotten(
    happened: list[tuple[str, int | str]],
) -> None:
    pool, now = pool_of(2), 0.0
    run_of: dict[int, str] = {}
    waiting: list[int] = []
    held: list[int] = []
    for kind, what in happened:
        now += 1
        actions: list[SlotAction] = []
        match kind, what:
            case "enter", str(run):
                ticket, actions = pool.enter(demand(run), now)
                run_of[ticket] = run
                waiting.append(ticket)
            case "leave", int(which) if waiting or held:
                everybody = [*held, *waiting]
                ticket = everybody[which % len(everybody)]
                (held if ticket in held else waiting).remove(ticket)
                actions = pool.leave(ticket, now)
            case "capacity", int(slots):
                actions = pool.set_capacity(slots, now)
            case "tick", int(seconds):
                now += seconds
                actions = pool.tick(now)
        for action in actions:
            waiting.remove(action.ticket)
            if isinstance(action, Refuse):
                assert pool.capacity == 0
                continue
            assert all(other > action.ticket for other in waiting if run_of[other] == run_of[action.ticket])
            held.append(action.ticket)
            assert len(held) <= pool.capacity
        assert (pool.in_use, pool.waiting) == (len(held), len(waiting))
        assert not (waiting and len(held) < pool.capacity)  # with one slot wanted, a free slot waits for nobody


def test_of_a_clusters_slots_a_pool_deals_out_its_share_alone() -> None:
    pool = pool_of(4)
    assert pool.set_share(1, 0) == []
    assert enter(pool, "a", wanted=4) == (1, [Grant(1, AT_ONCE)])  # the cluster has what is wanted
    assert enter(pool, "a", wanted=4) == (2, [])
    assert pool.explain(2) == "1 of 4 slots in use, 1 by this run, 1 are for this triggerer; 0 of this run before it"
    assert pool.demand == 2
    assert pool.set_share(2, 1) == [Grant(2, AT_ONCE)]
    assert enter(pool, "a") == (3, [])
    assert pool.set_share(None, 2) == [Grant(3, AT_ONCE)]
    assert pool.set_share(0, 3) == []
    assert pool.in_use == 3  # what runs goes on
    with pytest.raises(InvalidValueError, match="slots"):
        pool.set_share(-1, 4)
