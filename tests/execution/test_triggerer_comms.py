"""What threads and cancelled triggers ask, with the comms of Airflow 3.1 in the place of this Airflow's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from airflow.sdk.execution_time import task_runner

from airflow_abs.execution import triggerer_comms
from airflow_abs.execution.triggerer_comms import LoopComms, ask_through_one_loop

ASKED_AT_ONCE = 8


class OneStream:
    """Answers in order, a moment later, to who holds the lock: which is of one event loop."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.answers: list[Any] = []
        self.note = "Airflow's"

    async def asend(self, message: Any) -> Any:
        async with self.lock:
            self.answers.append(message)
            await asyncio.sleep(0.001)
            return self.answers.pop(0)


@pytest.fixture(autouse=True)
def of_airflow_3_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggerer_comms, "has", lambda _: False)
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", None, raising=False)


def comms() -> Any:
    task_runner.SUPERVISOR_COMMS = OneStream()  # type: ignore[assignment]
    ask_through_one_loop()
    ask_through_one_loop()
    return task_runner.SUPERVISOR_COMMS


def test_every_thread_gets_its_own_answer() -> None:
    async def ask() -> list[int]:
        asked = comms()
        threads = (asyncio.to_thread(asked.send, number) for number in range(ASKED_AT_ONCE))
        return await asyncio.gather(*threads)

    assert asyncio.run(ask()) == list(range(ASKED_AT_ONCE))


def test_who_is_cancelled_leaves_no_answer_to_the_next() -> None:
    async def ask() -> Any:
        asked = comms()
        first = asyncio.create_task(asked.asend("first"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        first.cancel()
        answer = await asked.asend("second")
        assert first.cancelled()
        return answer

    assert asyncio.run(ask()) == "second"


def test_it_is_put_around_airflows_own_once() -> None:
    async def ask() -> Any:
        return comms()

    asked = asyncio.run(ask())
    assert isinstance(asked, LoopComms)
    assert isinstance(asked._comms, OneStream)
    assert asked.note == "Airflow's"


def test_airflow_that_sees_to_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggerer_comms, "has", lambda _: True)

    async def ask() -> Any:
        return comms()

    assert isinstance(asyncio.run(ask()), OneStream)
