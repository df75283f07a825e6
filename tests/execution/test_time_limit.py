"""A time limit, and timeouts of somebody else."""

from __future__ import annotations

import asyncio
import errno
from typing import Any
from unittest.mock import AsyncMock

import pytest

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.execution.subtask import AwaitedSubtask, SubtaskRun
from airflow_abs.execution.time_limit import TimeIsUpError, run_within
from tests.execution.test_subtask import RUN
from tests.operators.test_run_subtask import subtask_operator


async def time_out_in_the_storage() -> None:
    raise TimeoutError(errno.ETIMEDOUT, "Connection timed out")


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("seconds", [None, 60.0])
def test_a_timeout_of_the_storage_is_not_the_limits(seconds: float | None) -> None:
    with pytest.raises(
        ExchangeUnreachableError, match=r"did not answer in time \(TimeoutError: .*timed out\)"
    ) as caught:
        asyncio.run(run_within(seconds, time_out_in_the_storage()))
    assert caught.value.restartable


def test_the_limit_itself_is_told() -> None:
    with pytest.raises(TimeIsUpError):
        asyncio.run(run_within(0.01, wait_for_ever()))


@pytest.mark.parametrize("deadline", [None, 4_000_000_000.0])
def test_a_trigger_blames_no_limit_and_leaves_spark_alone_when_the_storage_times_out(
    deadline: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(self: SubtaskRun) -> None:
        await time_out_in_the_storage()

    interrupted = AsyncMock()
    monkeypatch.setattr(SubtaskRun, "run", run)
    monkeypatch.setattr(SubtaskRun, "interrupt", interrupted)
    event = asyncio.run(AwaitedSubtask(SubtaskRun(**RUN), deadline).end())
    assert event.payload["error"]["exchange"]["type"] == "ExchangeUnreachableError"
    assert "did not answer in time (TimeoutError: " in event.payload["error"]["exchange"]["message"]
    interrupted.assert_not_awaited()


def test_a_trigger_past_its_deadline_interrupts_spark_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: SubtaskRun) -> None:
        await wait_for_ever()

    interrupted = AsyncMock()
    monkeypatch.setattr(SubtaskRun, "run", run)
    monkeypatch.setattr(SubtaskRun, "interrupt", interrupted)
    event = asyncio.run(AwaitedSubtask(SubtaskRun(**RUN), 1.0).end())
    assert "ran longer than its execution_timeout" in str(event.payload["error"]["spark"])
    interrupted.assert_awaited_once()


@pytest.mark.parametrize("deferrable", [True, False])
def test_a_worker_does_not_take_a_timeout_of_the_storage_for_not_done_yet(
    deferrable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Run:
        def get_endpoint(self) -> None:
            return None

        async def run(self, endpoint: Any) -> None:
            await time_out_in_the_storage()

    task = subtask_operator()
    task.deferrable = deferrable
    monkeypatch.setattr(task, "_describe", lambda context: Run())
    with pytest.raises(ExchangeUnreachableError, match="did not answer in time"):
        task.execute({})  # type: ignore[typeddict-item]
