"""The slot pool on a real clock and an invented cluster."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

import pytest

from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.slots.slot_pool import SlotDemand
from airflow_abs.execution import slots
from airflow_abs.execution.slots import ClusterSlots, SlotQueue, SlotSource, open_slots
from airflow_abs.hooks.adaptive_spark import AdaptiveSparkHook
from airflow_abs.spark.errors import ConnectAccessDeniedError, ConnectServerUnreachableError, ResourcesError

WAIT = WaitOptions(resource_timeout=0.5, stabilization=0.1)


def demand(run: str = "a", wanted: int = 1) -> SlotDemand:
    return SlotDemand(run, wanted, WAIT)


def in_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    def run() -> None:
        asyncio.run(bounded())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Cluster:
    """Says how many slots it has, or raises."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def read(self, demand: int) -> ClusterSlots:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return ClusterSlots(answer)

    async def leave(self) -> None:
        self.asked = 0


class Shared:
    """A cluster of so many slots with a notice board; each triggerer has a source of its own."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.demands: dict[str, int] = {}

    def source(self, me: str) -> SlotSource:
        shared = self

        class Source:
            async def read(self, demand: int) -> ClusterSlots:
                shared.demands[me] = demand
                return ClusterSlots(shared.capacity, me, dict(shared.demands))

            async def leave(self) -> None:
                del shared.demands[me]

        return Source()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_FOLLOW_SECONDS", "_AGAIN_SECONDS", "_QUIET_SECONDS", "_REMIND_SECONDS"):
        monkeypatch.setattr(slots, name, 0.01)
    monkeypatch.setattr(slots, "_TAKEOVER_SECONDS", 0.0)


@in_a_loop
async def test_as_many_as_there_are_slots_run_at_once_in_the_order_in_which_they_came() -> None:
    queue = SlotQueue("spark", Cluster(2))
    running: list[int] = []
    began: list[int] = []

    async def work(number: int) -> None:
        async with queue.slot(demand()):
            began.append(number)
            running.append(number)
            assert len(running) <= 2
            await asyncio.sleep(0.001)
            running.remove(number)

    # A reminder that is due in the very turn of the loop in which a slot is given lets the next one begin before it.
    with mock.patch.object(slots, "_QUIET_SECONDS", 60.0):
        await asyncio.gather(*(work(number) for number in range(20)))
    assert began == list(range(20))


@in_a_loop
async def test_who_gives_up_waiting_leaves_the_slot_to_the_next() -> None:
    queue = SlotQueue("spark", Cluster(1))
    entered = asyncio.Event()

    async def hold() -> None:
        async with queue.slot(demand()):
            entered.set()
            await asyncio.sleep(3600)

    first = asyncio.create_task(hold())
    await entered.wait()
    second = asyncio.create_task(hold())
    await asyncio.sleep(0)
    entered.clear()
    third = asyncio.create_task(hold())
    await asyncio.sleep(0)
    for task in (second, first):
        task.cancel()
    await entered.wait()
    third.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)


@in_a_loop
async def test_two_triggerers_have_no_more_slots_together_than_the_cluster_and_half_of_them_each() -> None:
    cluster = Shared(4)
    cluster.demands = {"one": 20, "two": 20}  # each has posted before the other one looks
    queues = [SlotQueue("spark", cluster.source(name)) for name in ("one", "two")]
    running, most, each_most = [0, 0], 0, [0, 0]

    async def work(number: int) -> None:
        nonlocal most
        async with queues[number].slot(demand()):
            running[number] += 1
            most, each_most[number] = max(most, sum(running)), max(each_most[number], running[number])
            await asyncio.sleep(0.02)
            running[number] -= 1

    async with asyncio.TaskGroup() as group:
        for number in (0, 1) * 20:
            group.create_task(work(number))
    assert (most, each_most[0] >= 2, each_most[1] >= 2) == (4, True, True)


@in_a_loop
async def test_the_slots_of_a_triggerer_that_has_nothing_to_do_are_for_the_other() -> None:
    cluster = Shared(4)
    cluster.demands = {"idle": 0}
    queue = SlotQueue("spark", cluster.source("one"))
    running, most = 0, 0

    async def work() -> None:
        nonlocal running, most
        async with queue.slot(demand()):
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.01)
            running -= 1

    await asyncio.gather(*(work() for _ in range(12)))
    assert most == 4
    while not queue.is_over:
        await asyncio.sleep(0.01)
    assert cluster.demands == {"idle": 0}


@in_a_loop
async def test_what_runs_already_waits_for_nobody() -> None:
    queue = SlotQueue("spark", Cluster(1))
    async with queue.slot(demand()), queue.slot(demand(), is_running=True):
        pass


def test_a_triggerer_that_has_just_started_hears_of_what_runs_before_it_lets_others_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slots, "_loaded_at", time.monotonic())
    monkeypatch.setattr(slots, "_TAKEOVER_SECONDS", 0.2)
    order: list[str] = []

    async def hold(queue: SlotQueue, name: str, *, is_running: bool) -> None:
        async with queue.slot(demand(), is_running=is_running):
            order.append(name)
            await asyncio.sleep(0.3)
            order.append(f"{name} ended")

    @in_a_loop
    async def begin() -> None:
        queue = SlotQueue("spark", Cluster(1))
        waiting = asyncio.create_task(hold(queue, "new", is_running=False))
        await asyncio.sleep(0.01)
        await asyncio.gather(waiting, hold(queue, "running", is_running=True))

    begin()
    assert order == ["running", "running ended", "new", "new ended"]


@in_a_loop
async def test_the_cluster_is_followed_as_it_grows() -> None:
    cluster = Cluster(0, ConnectServerUnreachableError("no server"), 1)
    queue = SlotQueue("spark", cluster)
    async with queue.slot(demand()):
        assert cluster.asked >= 3


@in_a_loop
async def test_a_cluster_that_nobody_needs_any_more_is_left_alone() -> None:
    queue = SlotQueue("spark", Cluster(1))
    async with queue.slot(demand()):
        assert not queue.is_over
    while not queue.is_over:
        await asyncio.sleep(0.01)


def test_what_the_cluster_manager_says_of_missing_executors_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Empty(Cluster):
        async def read(self, demand: int) -> ClusterSlots:
            return ClusterSlots(1, lack="the cluster manager says: 0 executors run, 2 wait: its queue is full")

    async def wait() -> None:
        queue = SlotQueue("spark", Empty(1))

        async def hold() -> None:
            async with queue.slot(demand()):
                while "its queue is full" not in caplog.text:
                    await asyncio.sleep(0.01)

        await asyncio.gather(hold(), hold())

    caplog.set_level(logging.INFO)
    asyncio.run(asyncio.wait_for(wait(), 60))
    said = [record.getMessage() for record in caplog.records if record.name == slots.__name__]
    assert said[0] == (
        "waiting for a slot of spark: 1 of 1 slot in use, 1 by this run; 0 of this run before it: "
        "the cluster manager says: 0 executors run, 2 wait: its queue is full"
    )


def test_what_it_waits_for_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def wait() -> None:
        queue = SlotQueue("spark", Cluster(1))

        async def hold() -> None:
            async with queue.slot(demand()):
                while "waiting" not in caplog.text:
                    await asyncio.sleep(0.01)

        await asyncio.gather(hold(), hold())

    caplog.set_level(logging.INFO)
    asyncio.run(asyncio.wait_for(wait(), 60))
    said = [record.getMessage() for record in caplog.records if record.name == slots.__name__]
    assert said[0] == "waiting for a slot of spark: 1 of 1 slot in use, 1 by this run; 0 of this run before it"
    assert said[-1] == "has a slot of spark now (desired resources are there)"


@in_a_loop
async def test_without_any_slot_it_fails_with_what_was_wanted_and_why() -> None:
    queue = SlotQueue("spark", Cluster(ConnectServerUnreachableError("nothing answers at localhost:1")))
    with pytest.raises(ResourcesError) as caught:
        async with queue.slot(demand(wanted=3)):
            pytest.fail("there is no slot")
    assert str(caught.value) == (
        "Spark cluster spark: no slot within 0.5 s, 3 wanted, none found (nothing answers at localhost:1); start the "
        "Spark server or give it executors, or raise resource_timeout"
    )


@pytest.mark.parametrize("error", [ConnectAccessDeniedError("wrong token"), LookupError("no such connection")])
def test_what_waiting_cannot_help_is_raised_at_once(error: Exception) -> None:
    @in_a_loop
    async def wait() -> None:
        with pytest.raises(type(error), match=str(error)):
            async with SlotQueue("spark", Cluster(error)).slot(SlotDemand("a", 1, WaitOptions(3600))):
                pytest.fail("there is no slot")

    wait()


@in_a_loop
async def test_what_runs_keeps_its_slot_when_the_cluster_lets_nobody_else_in() -> None:
    queue = SlotQueue("spark", Cluster(ConnectAccessDeniedError("wrong token")))
    async with queue.slot(demand(), is_running=True):
        with pytest.raises(ConnectAccessDeniedError):
            async with queue.slot(demand()):
                pytest.fail("there is no slot")


@in_a_loop
async def test_who_names_the_same_cluster_shares_its_slots() -> None:
    spark, other = AdaptiveSparkHook("spark"), AdaptiveSparkHook("other")
    assert open_slots(spark, 2) is open_slots(AdaptiveSparkHook("spark"), 2)
    assert open_slots(spark, 3) is not open_slots(spark, 2)
    assert open_slots(other, 2) is not open_slots(spark, 2)


def test_every_event_loop_has_its_own() -> None:
    async def get() -> Any:
        return open_slots(AdaptiveSparkHook("spark"), 2)

    assert asyncio.run(get()) is not asyncio.run(get())
