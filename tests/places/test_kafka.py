"""Streams from a real Kafka broker: exactly once over killed servers, other slots and a broker that is away.

`make test-kafka` fetches broker and connector and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.core.streaming.supervision import Tell
from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.streaming.stored_query import store_query
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import embedded_status, ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from airflow_abs.spark.stream.compile import StreamProgram
from airflow_abs.spark.stream.fit import Candidate, check_fit
from airflow_abs.spark.stream.query import StreamProgress
from airflow_abs.spark.stream.supervise import StreamRun
from testbed.places.kafka_broker import kafka_broker
from testbed.places.programs import connector_folder
from testbed.places.served import Served
from tests.spark.stream.streams import Place

pytestmark = [pytest.mark.places, pytest.mark.spark]

RECORDS = int(os.environ.get("AIRFLOW_ABS_KAFKA_RECORDS", "60000"))
OUTAGE = float(os.environ.get("AIRFLOW_ABS_OUTAGE", "60"))
"""Seconds."""
SECONDS = 600.0
# A broker that is away is noticed after seconds instead of minutes.
IMPATIENT = {"kafka.default.api.timeout.ms": "4000", "kafka.request.timeout.ms": "3000", "fetchOffset.numRetries": "1"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded server that may be killed."""
    yield tmp_path / "state"
    stop_embedded_server(tmp_path / "state")


def server(state: Path, cores: int) -> ConnectEndpoint:
    jars = (("spark.jars", f"{connector_folder('kafka')}/*.jar"),)
    settings = EmbeddedSettings(cores=cores, driver_memory="1200m", idle_seconds=120, conf=jars)
    return ensure_embedded_server(state, settings=settings)


def numbers(messages: Any) -> Any:
    return messages.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition", "offset")


@dataclass(slots=True)
class FromTopic(Place):
    """A stream of the numbers that a topic holds."""

    broker: str = ""
    topic: str = ""
    options: dict[str, str] = field(default_factory=dict)

    def program(self) -> StreamProgram:
        source = Kafka(self.broker, [self.topic], {"startingOffsets": "earliest", **IMPATIENT, **self.options})
        sink = Files(str(self.root / "out"), mode="append")
        checkpoint = f"file://{self.root}/checkpoint/spark"
        return StreamProgram("orders", "orders", source, self.transform, {}, sink, checkpoint, self.available_now)

    def produce(self, first: int, count: int) -> None:
        with open_session(self.endpoint) as session:
            rows = session.range(first, first + count).selectExpr(
                "CAST(id AS STRING) AS key", "CAST(id AS STRING) AS value"
            )
            to = rows.write.format("kafka").option("kafka.bootstrap.servers", self.broker)
            to.option("topic", self.topic).save()

    def is_exactly_once(self, records: int) -> bool:
        return sorted(row[0] for row in self.published()) == list(range(records))


class Told:
    """What a run has told so far, and how to wait for it."""

    def __init__(self, run: StreamRun) -> None:
        self.began = time.monotonic()
        self.batches: dict[int, StreamProgress] = {}
        self.changes: list[Tell] = []
        self.slots: set[int] = set()
        self._run = run
        run.on_progress, run.on_change = self._progress, self._change
        self.task = asyncio.create_task(run.run())

    def _progress(self, progress: StreamProgress) -> None:
        self.batches[progress.batch] = progress
        self.slots.add(self._run.lease.holder.slots)
        self.say(f"batch {progress.batch}: {progress.rows} records, {progress.rows_behind} behind")

    def _change(self, told: Tell) -> None:
        self.changes.append(told)
        self.say(f"{told.left} -> {told.entered}: {told.reason.splitlines()[0][:160]}")

    def say(self, what: str) -> None:
        print(f"{time.monotonic() - self.began:7.1f} s  {what}", flush=True)

    async def read(self, records: int) -> None:
        while sum(each.rows for each in self.batches.values()) < records:
            assert not self.task.done(), self.task.result()
            await asyncio.sleep(0.1)


@asynccontextmanager
async def running(place: FromTopic, plan: bytes, state: Path, cores: list[int]) -> AsyncIterator[Told]:
    """Drained at the end; `cores` are those of the server that comes when one was killed."""
    async with AsyncExitStack() as opened, asyncio.timeout(SECONDS):

        async def again() -> Connection:
            endpoint = await asyncio.to_thread(server, state, cores[-1])
            return await opened.enter_async_context(open_connection(endpoint))

        run = await opened.enter_async_context(place.supervised(plan, again=again))
        told = Told(run)
        yield told
        run.drain()
        assert (await told.task).status == "FINISHED"


def test_exactly_once_over_a_killed_server_and_other_slots(broker: Served, state: Path, tmp_path: Path) -> None:
    rescale = Rescale(records_per_slot=RECORDS // 12, cooldown=1, stabilization=2, max_delay=60)
    place = FromTopic(
        server(state, 2), tmp_path, numbers, available_now=False, wanted=SlotsWanted(4, 1), rescale=rescale, conf={},
        broker=broker.address, topic="killed",
    )  # fmt: skip
    place.produce(0, RECORDS)
    plan = place.compile()
    killed = embedded_status(state).jvm_pid
    assert killed is not None
    cores = [2]

    async def scene() -> Told:
        async with running(place, plan, state, cores) as told:
            await told.read(RECORDS // 4)
            told.say(f"kill Spark's server {killed}")
            cores.append(4)
            os.kill(killed, signal.SIGKILL)
            await told.read(RECORDS)
        return told

    told = asyncio.run(scene())
    place.endpoint = server(state, 4)
    assert place.is_exactly_once(RECORDS)
    assert told.slots >= {2, 4}
    behind = [batch.rows_behind for batch in told.batches.values()]
    # with a limit for each batch the first ones leave most of the topic for later, the last one nothing
    assert (behind[0] or 0) > RECORDS // 2, behind
    assert behind[-1] == 0
    assert max(batch.rows for batch in told.batches.values()) <= 4 * (RECORDS // 12)


def test_a_broker_that_is_away_is_waited_for(broker: Served, state: Path, tmp_path: Path) -> None:
    records = 20_000
    place = FromTopic(
        server(state, 2), tmp_path, numbers, available_now=False, conf={}, broker=broker.address, topic="away"
    )
    place.produce(0, records)
    plan = place.compile()

    async def scene() -> Told:
        async with running(place, plan, state, [2]) as told:
            await told.read(records)
            told.say(f"kill the broker for {OUTAGE:g} s")
            broker.kill()
            await asyncio.sleep(OUTAGE)
            assert not told.task.done(), told.task.result()
            broker.start()
            told.say("the broker is back")
            await asyncio.to_thread(place.produce, records, records)
            await told.read(2 * records)
            told.say("all read")
        return told

    told = asyncio.run(scene())
    assert place.is_exactly_once(2 * records)
    restarts = [each for each in told.changes if each.entered == "Restarting"]
    assert len(restarts) >= 4, "fewer than the failures on the same offsets after which it used to be given up"


def test_headers_are_no_obstacle_to_a_change_and_another_topic_is_refused(
    broker: Served, state: Path, tmp_path: Path
) -> None:
    def counted(messages: Any) -> Any:
        return messages.withWatermark("timestamp", "1 hour").dropDuplicates(["key", "timestamp"]).selectExpr("offset")

    def without_few(messages: Any) -> Any:
        return counted(messages.where("offset >= 0"))

    place = FromTopic(
        server(state, 2), tmp_path, counted, conf={"spark.sql.shuffle.partitions": "2"}, broker=broker.address,
        topic="headers", options={"includeHeaders": "true"},
    )  # fmt: skip
    place.produce(0, 100)
    plan = place.compile()
    store_query(tmp_path / "checkpoint", plan)

    async def verdict(after: bytes) -> str:
        async with open_connection(place.endpoint) as connection:
            candidate = Candidate("stream 'orders'", after, place.conf, tmp_path / "checkpoint", tmp_path / "out")
            try:
                await check_fit(connection, candidate)
            except CheckpointMisfitError as error:
                return str(error)
            return ""

    async def once() -> None:
        async with place.supervised(plan) as run, asyncio.timeout(SECONDS):
            assert (await run.run()).status == "FINISHED"

    asyncio.run(once())
    place.transform = without_few
    assert asyncio.run(verdict(place.compile())) == ""
    place.topic = "killed"
    assert "it reads Kafka's killed now, and has read Kafka's headers" in asyncio.run(verdict(place.compile()))
