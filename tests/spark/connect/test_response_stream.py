"""What the network can do to somebody who awaits an operation, done by a proxy in front of a real server."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.execute import OperationOutcome, execute_operation
from airflow_abs.spark.connect.operations import Operation, derive_id
from airflow_abs.spark.errors import ConnectServerUnreachableError
from tests.spark.connect_plans import sleep, write_parquet

pytestmark = pytest.mark.spark

SLOW_ROW = "SELECT reflect('java.lang.Thread', 'sleep', 3000L + id) AS n FROM range(0, 1, 1, 1)"


class Proxy:
    """Passes bytes on to a server; can cut every connection, refuse new ones, or swallow everything."""

    def __init__(self, server: ConnectEndpoint) -> None:
        self._server = server
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[Any]] = set()
        self.refusing = False
        self.swallowing = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[ConnectEndpoint]:
        listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        async with listener:
            try:
                yield replace(self._server, host="127.0.0.1", port=listener.sockets[0].getsockname()[1])
            finally:
                self.cut()
                await asyncio.wait([*self._serving, asyncio.create_task(asyncio.sleep(0))], timeout=60)

    def cut(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            writer.transport.abort()
            return
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", self._server.port)
        self._writers |= {writer, back}
        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                if not self.swallowing:
                    writer.write(data)
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def execute_through(proxy: Proxy, plan: bytes, disturb: Callable[[], Coroutine[Any, Any, None]]) -> OperationOutcome:
    """The outcome of the plan, with the disturbance beginning once it runs."""

    async def run() -> OperationOutcome:
        running = asyncio.Event()
        async with proxy.running() as endpoint, open_connection(endpoint) as connection:
            operation = Operation(derive_id("network"), str(uuid.uuid4()), plan)
            listener = asyncio.create_task(
                execute_operation(connection, operation, on_progress=lambda _progress: running.set(), timeout=300)
            )
            await asyncio.wait_for(running.wait(), 200)
            await disturb()
            return await listener

    return asyncio.run(run())


@pytest.mark.sample
def test_cut_connections_cost_nothing_and_do_nothing_twice(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    proxy = Proxy(connect_server)

    async def disturb() -> None:
        for _ in range(3):
            proxy.cut()
            await asyncio.sleep(0.4)

    # The write fails if its folder is there: a second execution would show.
    outcome = execute_through(proxy, write_parquet(SLOW_ROW, tmp_path / "out"), disturb)
    assert outcome.reattached >= 3
    assert pq.read_table(tmp_path / "out").num_rows == 1


def test_a_network_that_is_away_for_a_while_is_waited_for(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    proxy = Proxy(connect_server)

    async def disturb() -> None:
        proxy.refusing = True
        proxy.cut()
        await asyncio.sleep(4)  # longer than the operation takes
        proxy.refusing = False

    execute_through(proxy, write_parquet(SLOW_ROW, tmp_path / "out"), disturb)
    assert pq.read_table(tmp_path / "out").num_rows == 1


def test_a_quiet_stream_of_a_server_that_lives_is_opened_again(
    connect_server: ConnectEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "airflow_abs.spark.connect.response_stream.SILENCE_SECONDS", 0.05
    )  # less than between two messages
    outcome = execute_through(Proxy(connect_server), sleep(3), lambda: asyncio.sleep(0))
    assert outcome.reattached >= 3
    assert len(outcome.arrow_batches) == 1


def test_a_server_that_falls_silent_is_given_up_with_a_name(
    connect_server: ConnectEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_abs.spark.connect.response_stream.SILENCE_SECONDS", 1.0)
    monkeypatch.setattr("airflow_abs.spark.connect.connection.CALL_SECONDS", 1.0)
    proxy = Proxy(connect_server)

    async def disturb() -> None:
        proxy.swallowing = True

    with pytest.raises(ConnectServerUnreachableError, match=r"127\.0\.0\.1:\d+: no answer within 1 s; start it, or"):
        execute_through(proxy, sleep(5), disturb)
