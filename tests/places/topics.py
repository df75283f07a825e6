"""Streams of numbers that a topic holds, and the Spark servers that they run on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from airflow_abs.core.streaming.supervision import Tell
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.embedded import ensure_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings, EmbeddedSparkError
from airflow_abs.spark.stream.compile import StreamProgram
from airflow_abs.spark.stream.query import StreamProgress
from airflow_abs.spark.stream.supervise import StreamRun
from testbed.places.programs import connector_folder
from tests.spark.stream.streams import Place

# A broker that is away is noticed after seconds instead of minutes.
IMPATIENT = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "3000", "fetchOffset.numRetries": "1"}


def server(state: Path, cores: int, **conf: str) -> ConnectEndpoint:
    """An embedded one with Kafka's connector; of several that are asked for in `state`, the first counts."""
    jars = {"spark.jars": f"{connector_folder('kafka')}/*.jar"}
    settings = EmbeddedSettings(
        cores=cores, driver_memory="1200m", idle_seconds=120, start_timeout=300, conf=tuple((jars | conf).items())
    )
    return ensure_embedded_server(state, settings=settings)


@dataclass(slots=True)
class FromTopic(Place):
    """A stream of the numbers that a topic holds, to a folder or to the topic `into`."""

    broker: str = ""
    topic: str = ""
    into: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def program(self) -> StreamProgram:
        source = Kafka(self.broker, [self.topic], {"startingOffsets": "earliest", **IMPATIENT, **self.options})
        sink = Kafka(self.broker, self.into) if self.into else Files(str(self.root / "out"), mode="append")
        checkpoint = f"file://{self.root}/checkpoint/spark"
        return StreamProgram("orders", "orders", source, self.transform, {}, sink, checkpoint, self.available_now)

    def produce(self, first: int, count: int, step: int = 1) -> None:
        """`count` numbers from `first` on, each so much larger than the one before."""
        with open_session(self.endpoint) as session:
            rows = session.range(first, first + count * step, step).selectExpr(
                "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
            )
            to = rows.write.format("kafka").option("kafka.bootstrap.servers", self.broker)
            to.option("topic", self.topic).save()

    def messages(self, topic: str) -> list[int]:
        """Keys of what a topic holds, in order."""
        with open_session(self.endpoint) as session:
            found = session.read.format("kafka").option("kafka.bootstrap.servers", self.broker)
            rows = found.option("subscribe", topic).load().selectExpr("CAST(CAST(key AS STRING) AS BIGINT) AS n")
            return sorted(row.n for row in rows.collect())

    def is_exactly_once(self, records: int) -> bool:
        return sorted(row[0] for row in self.published()) == list(range(records))


class Told:
    """What a run has told so far, and how to wait for it."""

    def __init__(self, run: StreamRun) -> None:
        self.began = time.monotonic()
        self.batches: dict[int, StreamProgress] = {}
        self.changes: list[Tell] = []
        self.slots: set[int] = set()
        self.run = run
        run.on_progress, run.on_change = self._progress, self._change
        self.task = asyncio.create_task(run.run())

    def _progress(self, progress: StreamProgress) -> None:
        self.batches[progress.batch] = progress
        self.slots.add(self.run.lease.holder.slots)
        self.say(f"batch {progress.batch}: {progress.rows} records, {progress.rows_behind} behind")

    def _change(self, told: Tell) -> None:
        self.changes.append(told)
        self.say(f"{told.left} -> {told.entered}: {told.reason.splitlines()[0][:160]}")

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    @property
    def records(self) -> int:
        """In batches that are done."""
        return sum(each.rows for each in self.batches.values())

    async def read(self, records: int) -> None:
        await self.until(lambda: self.records >= records)

    async def read_all(self) -> None:
        """All that there is. A killed server takes unread progress along, so counting records might never end."""
        await self.until(lambda: bool(self.batches) and self.batches[max(self.batches)].rows_behind == 0)

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            assert not self.task.done(), self.task.result()
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running(
    place: FromTopic, plan: bytes, another: Callable[[], ConnectEndpoint], seconds: float
) -> AsyncIterator[Told]:
    """Drained at the end, which is to come in so many seconds; `another` server comes when one was killed."""
    async with AsyncExitStack() as opened, asyncio.timeout(seconds):

        async def again() -> Connection:
            try:
                place.endpoint = await asyncio.to_thread(another)
            except EmbeddedSparkError as error:
                raise ConnectServerUnreachableError(str(error)) from error
            return await opened.enter_async_context(open_connection(place.endpoint))

        run = await opened.enter_async_context(place.supervised(plan, again=again))
        told = Told(run)
        yield told
        run.drain()
        assert (await told.task).status == "FINISHED"
