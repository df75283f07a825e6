"""No operation waits without end on a cluster that has no executor."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.spark.connect.capacity import (
    AS_WITHOUT_EXECUTORS,
    ask_without_executors,
    describe_lack,
    read_capacity,
    seconds_between_looks,
)
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import Progress
from airflow_abs.spark.connect.operations import Operation, interrupt_operation
from airflow_abs.spark.errors import OperationCancelledError, ResourcesError, SparkOperationError

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ExecutorWait:
    """Listens to the progress of an operation: since when has Spark run none of the tasks that it has for it?

    Args:
        seconds: how long they may wait for a first executor; negative: without end.
        listener: hears the same progress.
        note: is told at every look what it waits for; may block.
    """

    connection: Connection
    operation: Operation
    seconds: float
    listener: Callable[[Progress], None] | None = None
    note: Callable[[str], None] | None = None
    _waits_since: float | None = None
    _tasks: int = 0
    _refusal: str = ""

    def __call__(self, progress: Progress) -> None:
        self._tasks = progress.tasks_total - progress.tasks_done
        if progress.tasks_running or self._tasks <= 0:
            self._waits_since, self._refusal = None, ""
        elif self._waits_since is None:
            self._waits_since = time.monotonic()
        if self.listener is not None:
            self.listener(progress)

    @asynccontextmanager
    async def bounded(self) -> AsyncIterator[None]:
        """Look at the cluster while the block awaits the operation.

        Raises:
            ResourcesError: there was no executor for `seconds`; the operation is interrupted.
        """
        looking = asyncio.create_task(self._look())
        try:
            yield
        except OperationCancelledError as error:
            if self._refusal:
                raise ResourcesError(self._refusal) from error
            raise
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking

    async def _look(self) -> None:
        """A cluster that is only busy may take as long as it likes."""
        pause = seconds_between_looks(self.seconds)
        while True:
            await asyncio.sleep(pause)
            if self._waits_since is None or (waited := time.monotonic() - self._waits_since) < pause:
                continue
            with suppress(SparkOperationError):  # the process that awaits the operation learns what the server has
                lack = await self._lack()
                if not lack:
                    continue
                found = f"{format_count(self._tasks, 'Spark task')} to run, and {lack}"
                log.warning("waiting for resources: %s; %.0f s so far", found, waited)
                if self.note is not None:
                    with suppress(ExchangeError):
                        await asyncio.to_thread(self.note, found)
                if 0 <= self.seconds <= waited:
                    self._refusal = (
                        f"Spark ran nothing for {waited:.0f} s: {found}; give the server at "
                        f"{self.connection.endpoint.address} executors (its cluster manager says why there is none), "
                        "or raise resource_timeout"
                    )
                    await interrupt_operation(self.connection, self.operation.session_id, self.operation.operation_id)

    async def _lack(self) -> str:
        """How one knows that the cluster has no executor; "" if it has some."""
        told = await asyncio.to_thread(self.connection.endpoint.executors)
        if told is not None:
            return describe_lack(told)
        asked = (self.connection, self.operation.session_id)
        is_without = await ask_without_executors(*asked, await read_capacity(*asked))
        return AS_WITHOUT_EXECUTORS if is_without else ""
