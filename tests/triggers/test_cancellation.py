"""What Airflow's triggerer does to a trigger whose task was marked or cleared: it cancels it, with a message, and
calls `on_kill` only if that message comes back; and it cancels that, too, a second later."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from airflow.triggers.base import BaseTrigger

from airflow_abs.airflow_abilities import TRIGGERS_TOLD_OF_MARKS, has
from airflow_abs.execution.streams.stream import StreamServer, StreamTask
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.operations import set_config
from airflow_abs.triggers.streams.stream import StreamTrigger
from airflow_abs.triggers.subtask import SubtaskTrigger
from tests.execution.conftest import Supervisor
from tests.execution.test_subtask import RUN
from tests.triggers.streams.test_stream import TASK

TRIGGERS = [
    pytest.param(SubtaskTrigger(**RUN), id="subtask"),
    pytest.param(StreamTrigger(**TASK), id="stream"),
]


@pytest.mark.skipif(not has(TRIGGERS_TOLD_OF_MARKS), reason=TRIGGERS_TOLD_OF_MARKS.lack)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_trigger_that_is_cancelled_in_a_call_to_spark_ends_with_airflows_message(
    trigger: BaseTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """gRPC's calls raise an error of their own, without it: Airflow took such an end for a shutdown, and left on Spark
    what ran there."""

    async def cancelled() -> tuple[Any, ...]:
        async def call(*_: object) -> None:
            async with open_connection(ConnectEndpoint(*silent.getsockname())) as connection:
                await set_config(connection, "3f0c5b9e-0000-4000-8000-000000000000", {"spark.app.name": "x"})

        monkeypatch.setattr(SubtaskRun, "run", call)
        monkeypatch.setattr(StreamTask, "run", call)
        task: asyncio.Task[Any] = asyncio.create_task(anext(aiter(trigger.run())))  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            taken, _ = await asyncio.get_running_loop().sock_accept(silent)
            with taken:
                task.cancel("a user marked the task")
                with pytest.raises(asyncio.CancelledError) as error:
                    await task
        return error.value.args

    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        assert asyncio.run(cancelled()) == ("a user marked the task",)


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_what_on_kill_has_begun_ends_although_airflow_cancels_it_every_second(
    trigger: BaseTrigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled_twice() -> None:
        begun, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def interrupt(*_: object) -> None:
            begun.set()
            await may_end.wait()
            ended.set()

        monkeypatch.setattr(SubtaskRun, "interrupt", interrupt)
        monkeypatch.setattr(StreamServer, "connect", AsyncMock())
        monkeypatch.setattr(StreamTask, "stop", interrupt)
        task = asyncio.create_task(trigger.on_kill())
        async with asyncio.timeout(20):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            may_end.set()
            await ended.wait()

    asyncio.run(cancelled_twice())


@pytest.mark.parametrize(
    ("waits", "told", "killed"), [(True, False, False), (False, False, True), (False, True, False)]
)
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_without_airflows_word_a_trigger_asks_whether_its_task_still_waits_for_it(
    trigger: BaseTrigger,
    waits: bool,
    told: bool,
    killed: bool,
    supervisor: Supervisor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Below Airflow 3.3: a mark ends the operation, a shutdown of the triggerer does not."""
    supervisor.counts = [int(waits)]
    monkeypatch.setattr("airflow_abs.execution.cancellation.has", lambda _: told)
    on_kill = AsyncMock()
    monkeypatch.setattr(type(trigger), "on_kill", on_kill)

    async def cancelled() -> None:
        begun = asyncio.Event()

        async def run(*_: object) -> None:
            begun.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(SubtaskRun, "run", run)
        monkeypatch.setattr(StreamTask, "run", run)
        task: asyncio.Task[Any] = asyncio.create_task(anext(aiter(trigger.run())))  # type: ignore[arg-type]
        async with asyncio.timeout(20):
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    trigger.task_instance = SimpleNamespace(  # type: ignore[assignment] # as the triggerer does
        dag_id="dag", run_id="run", task_id="t", map_index=0, task=None
    )
    asyncio.run(cancelled())
    assert on_kill.await_count == int(killed)
