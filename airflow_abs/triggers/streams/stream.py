"""Supervise a stream from the triggerer, and end its task when it has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

from airflow_abs.execution.cancellation import finish, keep_message, killed_by_marks
from airflow_abs.execution.streams.stream import StreamServer, StreamTask
from airflow_abs.execution.task_end import error_to_json, settle

if TYPE_CHECKING:
    from airflow_abs.core.streaming.supervision import Ended

_AWAY_SECONDS = 3600.0


class StreamTrigger(BaseTrigger):
    """Has a stream for its whole life. After a crash of the triggerer Airflow starts it again, and it finds its query.

    `cleanup` is left alone on purpose: it is called on every exit, also on a triggerer's ordinary shutdown, when the
    query must continue.
    """

    def __init__(self, **task: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._task = StreamTask(**task)

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return f"{type(self).__module__}.{type(self).__qualname__}", self._task.to_json()

    async def run(self) -> AsyncIterator[TriggerEvent]:
        from airflow_abs.exchange.errors import ExchangeError, LeaseLostError
        from airflow_abs.spark.errors import SparkOperationError

        started = time.monotonic()
        try:
            async with killed_by_marks(self):
                ended = await keep_message(self._supervise())
            event = TaskSuccessEvent() if ended.status == "FINISHED" else TriggerEvent(asdict(ended))
        except LeaseLostError as error:
            self.log.info("%s", error)
            while True:  # an event would end the task, which is another process' now; Airflow cancels this one
                await asyncio.sleep(_AWAY_SECONDS)
        except (SparkOperationError, ExchangeError) as error:
            self.log.error("%s", error)  # noqa: TRY400 - the worker raises it, with its trace
            event = TriggerEvent({"error": error_to_json(error)})
        await settle(event, started)
        yield event

    async def on_kill(self) -> None:
        await finish(self._stop())

    async def _supervise(self) -> Ended:
        async with StreamServer(self._task.conn_id) as server:
            return await self._task.run(server)

    async def _stop(self) -> None:
        async with StreamServer(self._task.conn_id) as server:
            await self._task.stop(await server.connect())
