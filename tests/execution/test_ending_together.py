"""Subtasks of one region that end in one triggerer, with a supervisor that answers in the place of Airflow's."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from airflow.triggers.base import TaskSuccessEvent, TriggerEvent

from airflow_abs.execution import cleared, ending_together
from airflow_abs.execution.ending_together import end_in_batch
from tests.execution.conftest import Instance, Supervisor

LONG = 60.0


@dataclass
class Trigger:
    """Awaits `ends`; a trigger that only counts."""

    task_instance: Any
    ends: asyncio.Event = field(default_factory=asyncio.Event)
    event: TriggerEvent = field(default_factory=TaskSuccessEvent)

    async def on_kill(self) -> None:
        raise AssertionError("a mark is not what cancels it here")

    async def work(self) -> TriggerEvent:
        await self.ends.wait()
        return self.event


def subtask(index: int, **values: Any) -> Trigger:
    return Trigger(Instance("dag", "run", "job.orders.run", index), **values)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleared, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(cleared, "_LEAVE_SECONDS", 0.0)
    monkeypatch.setattr(ending_together, "_BATCH_SECONDS", LONG)


async def begin(triggers: Sequence[Trigger]) -> list[asyncio.Task[TriggerEvent]]:
    tasks = [asyncio.create_task(end_in_batch(each, each.work())) for each in triggers]
    await asyncio.sleep(0)
    return tasks


async def settle() -> None:
    """Whatever can happen without time has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.sample
def test_the_last_subtask_ends_those_that_wait_and_airflow_is_asked_once(supervisor: Supervisor) -> None:
    async def run() -> None:
        triggers = [subtask(index) for index in range(50)]
        tasks = await begin(triggers)
        for each in triggers[:-1]:
            each.ends.set()
        await settle()
        assert not any(task.done() for task in tasks)
        triggers[-1].ends.set()
        async with asyncio.timeout(10.0):
            assert [type(event) for event in await asyncio.gather(*tasks)] == [TaskSuccessEvent] * 50

    supervisor.states = {f"job.orders.run_{index}": "deferred" for index in range(50)}
    asyncio.run(run())
    assert supervisor.asked == [{"dag_id": "dag", "run_ids": ["run"], "task_ids": ["job.orders.run"]}]


def test_a_batch_ends_after_its_time_though_others_run(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        triggers = [subtask(index) for index in range(3)]
        tasks = await begin(triggers)
        triggers[0].ends.set()
        triggers[2].ends.set()
        async with asyncio.timeout(10.0):
            await asyncio.gather(tasks[0], tasks[2])
        assert not tasks[1].done()
        triggers[1].ends.set()
        async with asyncio.timeout(10.0):
            await tasks[1]

    monkeypatch.setattr(ending_together, "_BATCH_SECONDS", 0.05)
    supervisor.states = {f"job.orders.run_{index}": "deferred" for index in range(3)}
    asyncio.run(run())
    assert len(supervisor.asked) == 2


def test_a_batch_ends_when_it_is_full(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        triggers = [subtask(index) for index in range(5)]
        tasks = await begin(triggers)
        for each in triggers[:2]:
            each.ends.set()
        async with asyncio.timeout(10.0):
            await asyncio.gather(*tasks[:2])
        assert not any(task.done() for task in tasks[2:])
        for task in tasks[2:]:
            task.cancel()
        await asyncio.gather(*tasks[2:], return_exceptions=True)

    monkeypatch.setattr(ending_together, "_BATCH_SIZE", 2)
    supervisor.states = {f"job.orders.run_{index}": "deferred" for index in range(5)}
    asyncio.run(run())


def test_a_failure_is_not_held_back_and_lets_the_others_be_the_last(supervisor: Supervisor) -> None:
    async def run() -> None:
        failed = TriggerEvent({"error": {}})
        triggers = [subtask(0), subtask(1, event=failed), subtask(2)]
        tasks = await begin(triggers)
        triggers[1].ends.set()
        async with asyncio.timeout(10.0):
            assert await tasks[1] is failed
        triggers[0].ends.set()
        await settle()
        assert not tasks[0].done()
        tasks[2].cancel()  # as when its task is marked
        async with asyncio.timeout(10.0):
            await tasks[0]

    asyncio.run(run())


def test_one_that_is_cancelled_while_it_waits_to_end_is_out_of_the_batch(supervisor: Supervisor) -> None:
    async def run() -> None:
        triggers = [subtask(index) for index in range(3)]
        tasks = await begin(triggers)
        triggers[0].ends.set()
        triggers[1].ends.set()
        await settle()
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        assert not tasks[1].done()
        triggers[2].ends.set()
        async with asyncio.timeout(10.0):
            await asyncio.gather(*tasks[1:])

    supervisor.states = {"job.orders.run_1": "deferred", "job.orders.run_2": "deferred"}
    asyncio.run(run())


def test_a_cleared_subtask_of_a_batch_ends_without_an_event(supervisor: Supervisor) -> None:
    async def run() -> None:
        triggers = [subtask(0), subtask(1)]
        tasks = await begin(triggers)
        for each in triggers:
            each.ends.set()
        async with asyncio.timeout(10.0):
            assert isinstance(await tasks[0], TaskSuccessEvent)
            with pytest.raises(asyncio.CancelledError):
                await tasks[1]

    supervisor.states = {"job.orders.run_0": "deferred", "job.orders.run_1": None}
    supervisor.counts = [0]  # it is queued again
    asyncio.run(run())


def test_other_regions_and_runs_have_batches_of_their_own(supervisor: Supervisor) -> None:
    async def run() -> None:
        one = subtask(0)
        other = Trigger(Instance("dag", "run", "job.lines.run", 0))
        later = Trigger(Instance("dag", "next", "job.orders.run", 0))
        tasks = await begin([one, other, later])
        one.ends.set()
        async with asyncio.timeout(10.0):
            await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)

    asyncio.run(run())
