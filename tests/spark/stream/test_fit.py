"""Whether a changed stream fits its checkpoint: our verdict before anything is stopped, and Spark's."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.streaming.stored_query import store_query
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.operations import release_session, set_config
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.stream import trial
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream
from airflow_abs.spark.stream.fit import Candidate, check_fit
from airflow_abs.spark.stream.query import SESSION_SETTINGS, Activity, read_activity, read_failure, start_query
from tests.spark.stream.streams import Place

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SECONDS = 120.0
Transform = Callable[[Any], Any]


def counted(*keys: str, what: str = "count(1) AS n", delay: str = "10 seconds", where: str = "true") -> Transform:
    def transform(orders: Any) -> Any:
        from pyspark.sql import functions as sf

        late = orders.where(where).withWatermark("at", delay)
        grouped = late.groupBy(sf.window("at", "60 seconds"), *(sf.expr(key) for key in keys))
        return grouped.agg(*(sf.expr(each) for each in what.split("; "))).drop("window")

    return transform


def distinct(*keys: str) -> Transform:
    return lambda orders: orders.withWatermark("at", "1 hour").dropDuplicates(list(keys)).select("id", "key")


def selected(*columns: str) -> Transform:
    return lambda orders: orders.selectExpr(*columns)


def joined(how: str, column: str, near: int = 30) -> Transform:
    def transform(orders: Any) -> Any:
        from pyspark.sql import functions as sf

        left = orders.selectExpr("key", "at", column).withWatermark("at", "5 minutes").alias("l")
        right = orders.where("key = 3").withWatermark("at", "5 minutes").alias("r")
        by = sf.expr(f"l.key = r.key AND r.at BETWEEN l.at AND l.at + INTERVAL {near} SECONDS")
        return left.join(right, by, how).select(sf.col("l.id").alias("left"), sf.col("r.id").alias("right"))

    return transform


def with_itself(orders: Any) -> Any:
    return orders.select("id").union(orders.select("id"))


def beside_a_table(orders: Any) -> Any:
    names = orders.sparkSession.range(7).selectExpr("id AS key", "'n' || id AS name")
    return distinct("id", "at")(orders).join(names, "key")


BEFORE: dict[str, Transform] = {
    "count": counted("key"),
    "distinct": distinct("id", "at"),
    "join": joined("inner", "id"),
    "rows": selected("id", "key"),
}

CHANGES: list[tuple[str, str, Transform, str]] = [
    ("count", "all that is free", counted("key AS k", what="count(1) AS total", delay="1 minute", where="id > 5"), ""),
    ("count", "key without NULL", counted("coalesce(key, 0L) AS key"), ""),
    ("count", "type of the key", counted("CAST(key AS STRING) AS key"), "has the key (window STRUCT<"),
    ("count", "another value", counted("key", what="count(1) AS n; sum(id) AS s"), "has the value"),
    ("count", "deduplication", distinct("id", "at"), "operator 0 is a deduplication, and in the checkpoint an aggreg"),
    ("distinct", "table beside it", beside_a_table, ""),
    ("distinct", "other columns of the same types", distinct("key", "at"), ""),
    ("distinct", "more columns", distinct("id", "key", "at"), "a deduplication, has the key"),
    ("distinct", "no state", selected("id", "key"), "operator 0 is nothing, and in the checkpoint a dedup"),
    ("join", "interval", joined("inner", "id", near=60), ""),
    ("join", "outer", joined("leftOuter", "id"), "a join of two streams, has the value"),
    ("join", "type of a column", joined("inner", "CAST(id AS STRING) AS id"), "a join of two streams, has the value"),
    ("rows", "other rows", selected("id", "key + 1 AS key"), ""),
    ("rows", "state", distinct("id", "at"), "operator 0 is a deduplication, and in the checkpoint nothing"),
    ("rows", "sources", with_itself, "it reads 2 sources, and the checkpoint has the positions of 1"),
]


@dataclass(frozen=True, slots=True)
class Streams:
    """One that ran for each of `BEFORE`; each test finds it as it was then."""

    endpoint: ConnectEndpoint
    root: Path

    def restored(self, name: str, after: Transform | None = None) -> Place:
        place = self.root / name
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.root / "kept" / name, place)
        return Place(self.endpoint, place, after)


@pytest.fixture(scope="module")
def streams(connect_server: ConnectEndpoint, tmp_path_factory: pytest.TempPathFactory) -> Streams:
    found = Streams(connect_server, tmp_path_factory.mktemp("streams"))

    async def run(name: str) -> None:
        place = Place(connect_server, found.root / name, BEFORE[name])
        place.root.mkdir()
        place.deliver(0)
        plan = await asyncio.to_thread(place.compile)
        store_query(place.root / "checkpoint", plan)
        async with place.supervised(plan) as stream, asyncio.timeout(SECONDS):
            assert (await stream.run()).status == "FINISHED"
        shutil.copytree(place.root, found.root / "kept" / name)

    async def run_all() -> None:
        await asyncio.gather(*map(run, BEFORE))

    asyncio.run(run_all())
    return found


async def ours(connection: Connection, place: Place, plan: bytes, **options: Any) -> str:
    candidate = Candidate("stream 'orders'", plan, place.conf, place.root / "checkpoint", place.root / "out", **options)
    try:
        await check_fit(connection, candidate)
    except CheckpointMisfitError as error:
        return str(error)
    return ""


async def sparks(connection: Connection, place: Place, plan: bytes) -> str:
    session_id = str(uuid.uuid4())
    await set_config(connection, session_id, {**SESSION_SETTINGS, **place.conf})
    query = await start_query(connection, session_id, plan)
    async with asyncio.timeout(SECONDS):
        while await read_activity(connection, query) is not Activity.ENDED:
            await asyncio.sleep(0.1)
    failure = await read_failure(connection, query)
    await release_session(connection, session_id)
    return "" if failure is None else failure.message


@pytest.mark.parametrize(
    ("name", "change", "after", "misfit"), CHANGES, ids=[f"{name}-{change}" for name, change, *_ in CHANGES]
)
def test_what_is_refused_is_what_spark_itself_would_not_start(
    streams: Streams, name: str, change: str, after: Transform, misfit: str
) -> None:
    place = streams.restored(name, after)
    place.deliver(1)
    before = sorted(path.relative_to(place.root) for path in place.root.rglob("*") if path.is_file())

    async def verdicts() -> tuple[str, str]:
        plan = await asyncio.to_thread(place.compile)
        async with open_connection(streams.endpoint) as connection:
            told = await ours(connection, place, plan)
            assert sorted(path.relative_to(place.root) for path in place.root.rglob("*") if path.is_file()) == before
            return told, await sparks(connection, place, plan)

    told, failed = asyncio.run(verdicts())
    assert (bool(told), misfit in told) == (bool(misfit), True), (told, failed)
    assert bool(failed) == bool(misfit), failed


@pytest.mark.sample
def test_a_stream_that_was_not_changed_is_not_tried(streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    place = streams.restored("count", counted("key"))
    same = place.compile()

    async def verdict() -> str:
        async with open_connection(streams.endpoint) as connection:
            return await ours(connection, place, same)

    monkeypatch.setattr(trial, "write_atomic", None)  # which a trial would call
    assert asyncio.run(verdict()) == ""


@pytest.mark.sample
def test_another_sink_one_that_would_be_written_otherwise_and_another_source_are_refused(
    streams: Streams, tmp_path: Path
) -> None:
    place = streams.restored("rows")

    def compile_to(sink: Files | Kafka, folder: str = "rows/in") -> bytes:
        source = Files(str(streams.root / folder), schema="id BIGINT, key BIGINT, at TIMESTAMP")
        checkpoint = f"file://{streams.root}/rows/checkpoint/spark"
        with open_session(streams.endpoint) as session:
            transform = as_messages if isinstance(sink, Kafka) else BEFORE["rows"]
            program = StreamProgram("orders", "orders", source, transform, {}, sink, checkpoint)
            return compile_stream(session, program)

    def as_messages(rows: Any) -> Any:
        return rows.selectExpr("CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value")

    async def verdict(plan: bytes, out: Path | None) -> str:
        async with open_connection(streams.endpoint) as connection:
            candidate = Candidate("stream 'orders'", plan, {}, place.root / "checkpoint", out)
            with pytest.raises(CheckpointMisfitError) as caught:
                await check_fit(connection, candidate)
            return str(caught.value)

    told = asyncio.run(verdict(compile_to(Files(str(tmp_path / "new"))), tmp_path / "new"))
    assert told == (
        f"stream 'orders': as it is declared now it cannot resume from its checkpoint {place.root}/checkpoint: its "
        "sink "
        f"{tmp_path}/new has no batch 0 in its log, which the checkpoint completed: rows that were written before "
        "would "
        "be missing there, and Spark cannot read a log that begins in the middle. Give it its former sink; or another "
        "checkpoint, too"
    )
    out = str(streams.root / "rows/out")
    told = asyncio.run(verdict(compile_to(Files(out, format="orc", partition_by=["key"])), place.root / "out"))
    assert "is written as orc, partitioned by key now, and was written as parquet: one folder" in told
    told = asyncio.run(verdict(compile_to(Kafka("localhost:9092", "clean")), None))
    assert "it writes to the topic clean now, and has written to a folder: the rows of the batches before would" in told
    (streams.root / "rows/new").mkdir()
    told = asyncio.run(verdict(compile_to(Files(out), "rows/new"), place.root / "out"))
    assert f"it reads file://{streams.root}/rows/new now, and has read file://{streams.root}/rows/in: Spark" in told


@pytest.mark.sample
def test_a_new_checkpoint_with_a_sink_that_was_written_is_refused_and_spark_itself_would_lose_rows(
    streams: Streams,
) -> None:
    place = streams.restored("rows", BEFORE["rows"])
    before = place.published()
    (place.root / "in/0000.parquet").unlink()
    place.deliver(1)
    shutil.rmtree(place.root / "checkpoint")

    async def verdicts() -> tuple[str, str]:
        plan = await asyncio.to_thread(place.compile)
        async with open_connection(streams.endpoint) as connection:
            return await ours(connection, place, plan), await sparks(connection, place, plan)

    told, failed = asyncio.run(verdicts())
    assert told == (
        f"stream 'orders': as it is declared now it cannot resume from its checkpoint {place.root}/checkpoint: its "
        "sink "
        f"{place.root}/out has batch 0 in its log, and this checkpoint has begun none: Spark would take the next "
        "batches for written, and their rows would be missing. Give it another sink, too; or the checkpoint that the "
        "sink was written with"
    )
    assert (failed, len(before), place.published()) == ("", 100, before)  # a hundred rows more were read


@pytest.mark.sample
@pytest.mark.parametrize(
    ("there", "found"),
    [
        ("part-0.parquet", "part-0.parquet"),
        ("_delta_log/0.json", "a Delta table"),
        ("_SUCCESS", ""),
        ("_spark_metadata/.0.crc", ""),  # a query was started here, and had nothing to read
    ],
)
def test_a_sink_that_holds_what_no_stream_has_written_is_refused(
    connect_server: ConnectEndpoint, tmp_path: Path, there: str, found: str
) -> None:
    place = Place(connect_server, tmp_path, BEFORE["rows"])
    (tmp_path / "out" / there).parent.mkdir(parents=True)
    (tmp_path / "out" / there).touch()
    place.deliver(0)

    async def verdict() -> str:
        plan = await asyncio.to_thread(place.compile)
        async with open_connection(connect_server) as connection:
            return await ours(connection, place, plan)

    expected = (
        f"stream 'orders': its sink {tmp_path}/out holds {found}, which no stream has written: with the first batch "
        "Spark's log of the sink would hide it from every reader that respects the log. Give the stream a folder of "
        "its own"
    )
    assert asyncio.run(verdict()) == (expected if found else "")


def test_a_query_that_spark_does_not_start_at_all_is_told_by_spark(streams: Streams) -> None:
    place = streams.restored("count", lambda orders: orders.groupBy("key").count())

    async def verdict() -> None:
        plan = await asyncio.to_thread(place.compile)
        async with open_connection(streams.endpoint) as connection:
            await ours(connection, place, plan)

    with pytest.raises(Exception, match="watermark"):
        asyncio.run(verdict())
