"""A stream whose Connect server is killed goes on from its checkpoint on the one that comes after it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.spark.stream.streams import Place

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SMALL = EmbeddedSettings(cores=1, driver_memory="800m", idle_seconds=60)
SECONDS = 240.0


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded server that may be killed."""
    folder = tmp_path / "state"
    yield folder
    stop_embedded_server(folder)


def without_repeated(orders: Any) -> Any:
    return orders.withWatermark("at", "1 hour").dropDuplicates(["id", "at"]).select("id", "key")


def server(state: Path) -> ConnectEndpoint:
    return ensure_embedded_server(state, settings=SMALL)


def test_a_stream_goes_on_where_its_server_is_now(state: Path, tmp_path: Path) -> None:
    place = Place(server(state), tmp_path, without_repeated, available_now=False)
    place.deliver(0)
    plan = place.compile()
    killed = embedded_status(state)
    assert killed.jvm_pid is not None

    async def kill(number: int) -> None:
        batches: dict[int, int] = {}
        async with AsyncExitStack() as opened, asyncio.timeout(SECONDS):

            async def again() -> Connection:
                endpoint = await asyncio.to_thread(server, state)
                return await opened.enter_async_context(open_connection(endpoint))

            async def read(rows: int) -> None:
                while sum(batches.values()) < rows:
                    await asyncio.sleep(0.1)

            stream = await opened.enter_async_context(place.supervised(plan, again=again))
            stream.on_progress = lambda progress: batches.update({progress.batch: progress.rows})
            task = asyncio.create_task(stream.run())
            await read(100)
            os.kill(number, signal.SIGKILL)
            place.deliver(1)
            place.deliver(2, f"SELECT * FROM '{tmp_path}/in/0000.parquet'")
            await read(300)
            stream.drain()
            assert (await task).status == "FINISHED"

    asyncio.run(kill(killed.jvm_pid))
    assert embedded_status(state).jvm_pid != killed.jvm_pid
    place.endpoint = server(state)
    expected = duckdb.sql(f"SELECT DISTINCT id, key FROM {place.delivered()}").fetchall()
    assert place.published() == sorted(expected, key=repr)
