"""Whether a cluster that may have no executor runs a small task: before that, a stream does not count on its slots."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from dataclasses import dataclass

from airflow_abs.spark.connect.capacity import (
    AS_WITHOUT_EXECUTORS,
    ask_without_executors,
    describe_lack,
)
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation, release_session
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError

log = logging.getLogger(__name__)

_SOON_SECONDS = 1.0
_REMIND_SECONDS = 30.0


@dataclass(slots=True)
class FirstTask:
    """Asks one server, which says 2 slots both of 2 cores and of no executor; a cluster that scales makes some for it.

    Args:
        session_id: in which it asks.
        lack: how one knows that there is none; "" unless the task waits.
    """

    session_id: str
    lack: str = ""
    _running: asyncio.Task[None] | None = None
    _told_at: float = 0.0

    async def has_run(self, connection: Connection, slots: int) -> bool:
        """Send it if these slots may be none, and look at it: True if it has run, or is not needed.

        Raises:
            SparkOperationError: the server's own, or it does not answer.
        """
        if self._running is None:
            if not await ask_without_executors(connection, self.session_id, slots):
                return True
            self._running, self._told_at = asyncio.create_task(self._run(connection)), time.monotonic()
            await asyncio.wait({self._running}, timeout=_SOON_SECONDS)
        if self._running.done():
            self.lack, ran = "", self._running
            if ran.exception() is not None:
                self._running = None
            ran.result()
            return True
        told = await asyncio.to_thread(connection.endpoint.executors)
        self.lack = (describe_lack(told) if told is not None else "") or AS_WITHOUT_EXECUTORS
        if time.monotonic() - self._told_at >= _REMIND_SECONDS:
            self._told_at = time.monotonic()
            log.warning("waiting for resources: one Spark task to run, and %s", self.lack)
        return False

    async def forget(self, connection: Connection) -> None:
        """Nothing waits for it any more; the next look sends another one."""
        running, self._running, self.lack = self._running, None, ""
        if running is None:
            return
        running.cancel()
        await asyncio.wait({running})
        try:
            await release_session(connection, self.session_id)
        except SparkOperationError as error:
            log.warning("the small task that looked for executors is left to the server: %s", error)

    async def _run(self, connection: Connection) -> None:
        proto = protos()
        plan = proto.Plan()
        plan.root.range.end = plan.root.range.step = plan.root.range.num_partitions = 1
        operation = Operation(self.session_id, str(uuid.uuid4()), plan.SerializeToString())
        await execute_operation(connection, operation)
