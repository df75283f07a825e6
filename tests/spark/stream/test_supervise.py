"""Streams on a real Connect server: exact, one query on a checkpoint, found again, resumed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs import AdaptiveSparkStream, Files
from airflow_abs.core.streaming.supervision import Ended
from airflow_abs.exchange.errors import CheckpointHeldError, LeaseLostError
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.stream.compile import compile_stream
from airflow_abs.spark.stream.query import RunningQuery, find_query
from airflow_abs.spark.stream.supervise import StreamRun
from tests.spark.stream.streams import SCHEMA, Place

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SECONDS = 120.0


def counted_by_window(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    late = orders.withWatermark("at", "10 seconds")
    counts = late.groupBy(sf.window("at", "60 seconds"), "key").count()
    return counts.select(sf.unix_timestamp("window.start").alias("start"), "key", "count")


def without_repeated(orders: Any) -> Any:
    return orders.withWatermark("at", "1 hour").dropDuplicates(["id", "at"]).select("id", "key")


def joined_with_itself(orders: Any) -> Any:
    from pyspark.sql import functions as sf

    left = orders.withWatermark("at", "5 minutes").alias("l")
    right = orders.where("key = 3").withWatermark("at", "5 minutes").alias("r")
    near = sf.expr("l.key = r.key AND r.at BETWEEN l.at AND l.at + INTERVAL 30 SECONDS")
    return left.join(right, near).select(sf.col("l.id").alias("left"), sf.col("r.id").alias("right"))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await condition():
            await asyncio.sleep(0.1)


def run(place: Place, plan: bytes) -> Ended:
    async def supervise() -> Ended:
        async with place.supervised(plan) as stream, asyncio.timeout(SECONDS):
            return await stream.run()

    return asyncio.run(supervise())


def test_a_windowed_count_is_exact_across_runs(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    place = Place(connect_server, tmp_path, counted_by_window)
    place.deliver(0)
    plan = place.compile()
    for number in range(1, 4):
        assert run(place, plan).status == "FINISHED"
        place.deliver(number)
    run(place, plan)
    # rows to second 399; at a watermark of 389 the windows up to 360 are closed
    expected = duckdb.sql(
        f"SELECT 1767225600 + 60 * (id // 60) AS start, key, count(*) FROM {place.delivered()} "
        "WHERE id < 360 GROUP BY ALL"
    ).fetchall()
    assert place.published() == sorted(expected, key=repr)


def test_a_bounded_source_is_read_to_its_end_and_not_beyond(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    declared = AdaptiveSparkStream(
        task_id="orders",
        source=Files(str(tmp_path / "in"), schema=SCHEMA, options={"maxFilesPerTrigger": "1"}, bounded=True),
        sink=Files(str(tmp_path / "out"), mode="append"),
        checkpoint=str(tmp_path / "checkpoint"),
    ).declared("orders")
    place = Place(connect_server, tmp_path, available_now=declared.program.available_now)
    for number in range(3):
        place.deliver(number)
    with open_session(connect_server) as session:
        plan = compile_stream(session, declared.program)
    assert run(place, plan).status == "FINISHED"
    place.deliver(3)
    assert sorted(row[0] for row in place.published()) == list(range(300))


def test_repeated_rows_are_dropped_across_runs(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    place = Place(connect_server, tmp_path, without_repeated)
    place.deliver(0)
    plan = place.compile()
    run(place, plan)
    place.deliver(1, f"SELECT * FROM '{tmp_path}/in/0000.parquet'")
    place.deliver(2)
    run(place, plan)
    expected = duckdb.sql(f"SELECT DISTINCT id, key FROM {place.delivered()}").fetchall()
    assert place.published() == sorted(expected, key=repr)


def test_a_join_of_two_streams_is_exact_across_runs(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    place = Place(connect_server, tmp_path, joined_with_itself)
    plan = b""
    for number in range(3):
        place.deliver(number)
        plan = plan or place.compile()
        run(place, plan)
    expected = duckdb.sql(
        f"SELECT l.id, r.id FROM {place.delivered()} l JOIN {place.delivered()} r ON l.key = r.key AND r.key = 3 "
        "AND r.at BETWEEN l.at AND l.at + INTERVAL 30 SECOND"
    ).fetchall()
    assert place.published() == sorted(expected, key=repr)


async def running(stream: StreamRun) -> RunningQuery:
    async def is_there() -> bool:
        return stream._query is not None

    await until(is_there)
    assert stream._query is not None
    return stream._query


def test_whoever_supervises_the_stream_again_finds_its_query_and_the_other_lets_go(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    place = Place(connect_server, tmp_path, available_now=False)
    place.deliver(0)
    plan = place.compile()

    async def take_over() -> None:
        async with place.supervised(plan, "a") as first, place.supervised(plan, "b") as second:
            one = asyncio.create_task(first.run())
            query = await running(first)
            with pytest.raises(CheckpointHeldError, match="task runs a query on it"):
                async with place.supervised(plan, "c", owner="another task") as other:
                    await other.run()
            first.lease._seconds = 1  # renewed, and so refused, soon
            two = asyncio.create_task(second.run())
            assert await running(second) == query
            with pytest.raises(LeaseLostError, match="another process of task supervises its query now"):
                await one
            assert await find_query(second.connection, query.session_id, "orders") == query
            second.drain()
            assert (await two).status == "FINISHED"
            assert await find_query(second.connection, query.session_id, "orders") is None

    asyncio.run(take_over())


@pytest.mark.sample
def test_a_query_that_is_killed_goes_on_from_its_checkpoint(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    from airflow_abs.spark.connect.operations import release_session

    place = Place(connect_server, tmp_path, without_repeated, available_now=False)
    place.deliver(0)
    plan = place.compile()

    async def kill() -> None:
        batches = []
        async with place.supervised(plan) as stream:
            stream.on_progress = lambda progress: batches.append((progress.batch, progress.rows))
            task = asyncio.create_task(stream.run())
            for number in range(1, 4):
                query = await running(stream)

                async def is_read(rows: int = number * 100) -> bool:
                    return sum(count for _, count in dict.fromkeys(batches)) >= rows

                await until(is_read)
                await release_session(stream.connection, query.session_id)
                place.deliver(number)

            async def is_all_read() -> bool:
                return sum(count for _, count in dict.fromkeys(batches)) >= 400

            await until(is_all_read)
            stream.drain()
            assert (await task).status == "FINISHED"

    asyncio.run(kill())
    expected = duckdb.sql(f"SELECT DISTINCT id, key FROM {place.delivered()}").fetchall()
    assert place.published() == sorted(expected, key=repr)


def test_a_query_that_fails_on_the_same_offsets_is_given_up_with_its_batch(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    place = Place(connect_server, tmp_path)
    place.deliver(0)
    plan = place.compile()
    assert run(place, plan).status == "FINISHED"
    (tmp_path / "in" / "0001.parquet").write_bytes(b"no Parquet at all")
    ended = run(place, plan)
    assert ended.status == "FAILED"
    assert "0001.parquet" in ended.reason
    assert "failed" in ended.reason
