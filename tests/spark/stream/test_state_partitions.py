"""The state of a real query is cut into other partitions between two starts, and every row is still there once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.supervision import CancelAsked, Ended
from airflow_abs.exchange.streaming.spark_checkpoint import SparkCheckpoint, read_spark_checkpoint
from tests.spark.stream.streams import Place

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SECONDS = 240.0
HALF_OF_IT_AGAIN = "SELECT i AS id, i % 7 AS key, to_timestamp(1767225600 + i) AS at FROM range(50, 150) t(i)"


def slowly_without_repeated(began: str) -> Callable[[Any], Any]:
    """Each id once, however often it comes; rows of the second half of a thousand take their time, and leave a file."""

    def transform(orders: Any) -> Any:
        from pyspark.sql import functions as sf

        @sf.udf("long")
        def slow(number):  # type: ignore[no-untyped-def]
            import pathlib
            import time

            if number >= 500:
                pathlib.Path(began).touch()
                time.sleep(0.02)
            return number

        once = orders.withWatermark("at", "1 day").dropDuplicates(["id", "at"])
        return once.select(slow("id").alias("id"), "key")

    return transform


def run(place: Place, partitions: int, *, stop_when: Callable[[], bool] = lambda: False) -> Ended:
    place.rescale = Rescale(partitions_per_slot=partitions, repartition_state="local[1]")
    place.conf = {}
    plan = place.compile()

    async def supervise() -> Ended:
        async with place.supervised(plan) as stream, asyncio.timeout(SECONDS):
            task = asyncio.create_task(stream.run())
            while not task.done():
                if stop_when():
                    stream._asked = CancelAsked()
                await asyncio.sleep(0.05)
            return await task

    return asyncio.run(supervise())


def expected(place: Place) -> list[Any]:
    return sorted(duckdb.sql(f"SELECT DISTINCT id, key FROM {place.delivered()}").fetchall(), key=repr)


def state(place: Place) -> SparkCheckpoint:
    return read_spark_checkpoint(place.root / "checkpoint/spark")


def test_a_stateful_stream_is_rescaled_with_its_state_after_the_batch_that_was_begun(
    connect_server: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="airflow_abs")
    began = tmp_path / "began"
    place = Place(connect_server, tmp_path, slowly_without_repeated(str(began)))
    place.deliver(0)
    place.deliver(5)
    assert run(place, 2, stop_when=began.exists).status == "CANCELED"
    assert state(place) == SparkCheckpoint(begun=1, done=0, state_partitions=2)

    place.deliver(1, HALF_OF_IT_AGAIN)
    assert run(place, 1).status == "FINISHED"
    assert "orders: its state has 1 partition instead of 2 now, as batch 2 (" in caplog.text
    assert state(place) == SparkCheckpoint(begun=3, done=3, state_partitions=1)
    assert place.published() == expected(place)
