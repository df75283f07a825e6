"""One process that supervises the three streams, as a triggerer does: `python -m tests.faults.streams.supervisor`.

A stream that was given up is started again when somebody says so (or, if that may pass, by itself), as Airflow does
with a task that was cleared, or failed with retries left.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from contextlib import AsyncExitStack
from pathlib import Path

from airflow_abs.core.slots.resource_wait import WaitOptions
from airflow_abs.core.streaming.failures import FailureJudge
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.supervision import StreamSupervisor
from airflow_abs.exchange.errors import CheckpointHeldError, ExchangeError, LeaseLostError
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder
from airflow_abs.restart_strategy import ExponentialDelayRestart
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.errors import ConnectServerUnreachableError, SparkOperationError
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings, EmbeddedSparkError
from airflow_abs.spark.stream.stream import Stream
from airflow_abs.spark.stream.supervise import StreamRun

LEASE_SECONDS = 6.0
AGAIN_SECONDS = 2.0
POISONED = "poisoned"
"""Stands in the name of a file that has to be mended before its stream is started again."""


def server_settings(events: Path) -> EmbeddedSettings:
    """One whose tasks run in two processes of their own, and that tells what it does."""
    conf = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{events}",
    }
    return EmbeddedSettings(driver_memory="1g", idle_seconds=120, conf=tuple(sorted(conf.items())))


class Server:
    """The embedded server, wherever it is now."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = AsyncExitStack()
        self._endpoint: ConnectEndpoint | None = None
        self._connection: Connection | None = None

    async def connect(self) -> Connection:
        settings = server_settings(self._folder / "events")
        try:
            endpoint = await asyncio.to_thread(ensure_embedded_server, self._folder / "spark", settings=settings)
        except EmbeddedSparkError as error:
            raise ConnectServerUnreachableError(str(error)) from error
        if self._connection is None or endpoint != self._endpoint:
            self._connection = await self._open.enter_async_context(open_connection(endpoint))
            self._endpoint = endpoint
        return self._connection


class Supervisor:
    """Args: the folder of the suite, the owner of the leases, and where to note what happens."""

    def __init__(self, folder: Path, owner: str, journal: Path) -> None:
        self._folder, self._owner, self._journal = folder, owner, journal
        self._server = Server(folder)

    async def supervise(self, name: str) -> None:
        while True:
            try:
                status, reason = await self._run(name)
            except (CheckpointHeldError, LeaseLostError) as error:
                self._note(name, "let go", str(error))
                return
            except (SparkOperationError, ExchangeError, OSError) as error:
                status, reason = "FAILED", str(error)
            self._note(name, status, reason)
            if status == "FINISHED":
                return
            if POISONED in reason:
                await self._wait_for_word(name)
            else:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _run(self, name: str) -> tuple[str, str]:
        judge = FailureJudge(ExponentialDelayRestart(initial=0.5, longest=5, attempts=None).new_backoff(name))
        holder = Holder(self._owner, f"{self._owner} {time.time_ns()}", query=name)
        run = StreamRun(
            await self._server.connect(),
            self._server.connect,
            Stream(name, (self._folder / f"{name}.plan").read_bytes(), {"spark.sql.shuffle.partitions": "2"}, 0.3),
            CheckpointLease(self._folder / "small" / name, holder, time.time, LEASE_SECONDS),
            StreamSupervisor(judge, SlotsWanted(), ends=False, wait=WaitOptions(120, 0)),
        )
        draining = asyncio.create_task(self._drain_when_asked(run))
        try:
            ended = await run.run()
        finally:
            draining.cancel()
        return ended.status, ended.reason

    async def _drain_when_asked(self, run: StreamRun) -> None:
        while not (self._folder / "drain").exists():
            await asyncio.sleep(0.2)
        run.drain()

    async def _wait_for_word(self, name: str) -> None:
        word = self._folder / f"{name}.again"
        while not word.exists():
            await asyncio.sleep(0.1)
        word.unlink(missing_ok=True)

    def _note(self, name: str, what: str, why: str) -> None:
        with self._journal.open("a", encoding="utf-8") as journal:
            journal.write(json.dumps({"stream": name, "what": what, "why": why}) + "\n")


async def _supervise_all(supervisor: Supervisor, names: list[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(supervisor.supervise(name))


def main(folder: str, owner: str, journal: str, *names: str) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(_supervise_all(Supervisor(Path(folder), owner, Path(journal)), list(names)))


if __name__ == "__main__":
    main(*sys.argv[1:])
