"""A real query is remembered beside its checkpoint, and ends as the command line asks it to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.cli.main import main
from airflow_abs.core.stream_life.life import StreamLife
from airflow_abs.core.streaming.supervision import Ended
from airflow_abs.exchange.streaming.life_record import read_life
from airflow_abs.spark.stream.supervise import StreamRun
from airflow_abs.spark.stream.watch import StreamWatch
from tests.spark.stream.streams import Place

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SECONDS = 120.0


def even_and_once(orders: Any) -> Any:
    return orders.where("id % 2 = 0").withWatermark("at", "1 hour").dropDuplicates(["id", "at"]).select("id", "key")


def slowly(began: str) -> Callable[[Any], Any]:
    """A transform with which a hundred rows take three seconds, and which leaves a file when it begins."""

    def pass_slowly(orders: Any) -> Any:
        from pyspark.sql import functions as sf

        @sf.udf("long")
        def slow(number):  # type: ignore[no-untyped-def]
            import pathlib
            import time

            pathlib.Path(began).touch()
            time.sleep(0.03)
            return number

        return orders.select(slow("id").alias("id"), "key")

    return pass_slowly


def life_of(place: Place) -> StreamLife:
    return read_life(place.root / "checkpoint") or StreamLife()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.05)


def ended_by(place: Place, plan: bytes, action: str, when: Callable[[StreamRun], bool]) -> Ended:
    """How the stream ends that somebody asks for it as soon as that is so."""

    async def ask() -> Ended:
        watch = StreamWatch(place.root / "checkpoint", "task", action, seconds=0.1)
        async with place.supervised(plan) as stream, asyncio.timeout(SECONDS):
            stream.lease._holder = replace(stream.lease.holder, query=action)  # as if compiled for this
            stream.on_progress, stream.on_change, stream.attend = watch.progress, watch.change, watch.attend
            task = asyncio.create_task(stream.run())
            await until(lambda: when(stream) or task.done())
            command = ["stream", action, str(place.root / "checkpoint"), "--wait", str(SECONDS)]
            assert await asyncio.to_thread(main, command) == 0
            return await task

    return asyncio.run(ask())


@pytest.mark.sample
def test_a_drained_stream_has_told_its_states_and_batches(
    connect_server: ConnectEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = Place(connect_server, tmp_path, even_and_once, available_now=False)
    for number in range(3):
        place.deliver(number)
    ended = ended_by(place, place.compile(), "drain", lambda _: len(life_of(place).batches) >= 3)
    assert ended.status == "FINISHED"
    life = life_of(place)
    states = ["WaitingForResources", "CreatingExecutionGraph", "Executing", "StopWithSavepoint", "Finished"]
    assert [change.entered for change in life.changes] == states
    assert [(batch.number, batch.rows_in, batch.rows_out) for batch in life.batches[:3]] == [
        (0, 100, 50),
        (1, 100, 50),
        (2, 100, 50),
    ]
    assert [batch.state_rows for batch in life.batches[:3]] == [50, 100, 150]
    assert all(batch.state_bytes > 0 and batch.seconds > 0 for batch in life.batches[:3])
    written = [path.stat().st_mtime for path in sorted((tmp_path / "in").glob("*.parquet"))]
    for batch, modified in zip(life.batches, written, strict=False):
        assert batch.lag == pytest.approx(batch.ended - modified, abs=0.01)
    assert "has asked it to drain" in life.notes[0].text
    assert main(["stream", "status", str(tmp_path / "checkpoint"), "--json"]) == 1
    told = capsys.readouterr().out
    assert json.loads(told[told.index("{") :])["state"] == "Finished"


def test_a_drain_lets_the_batch_be_done_and_a_stop_does_not(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    place = Place(connect_server, tmp_path, slowly(str(first)), available_now=False)
    place.deliver(0)
    ended = ended_by(place, place.compile(), "stop", lambda _: first.exists())
    assert ended.status == "CANCELED"
    assert not list((tmp_path / "out").glob("_spark_metadata/0"))
    assert [change.entered for change in life_of(place).changes][-2:] == ["Canceling", "Finished"]
    place.transform = slowly(str(second))
    ended = ended_by(place, place.compile(), "drain", lambda _: second.exists())
    assert ended.status == "FINISHED"
    assert place.published() == sorted([(number, number % 7) for number in range(100)], key=repr)
