"""Streams from a real Kafka broker: exactly once over killed servers, other slots and a broker that is away.

`make test-kafka` fetches broker and connector and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.streaming.stored_query import store_query
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.server.embedded import embedded_status, stop_embedded_server
from airflow_abs.spark.stream.fit import Candidate, check_fit
from testbed.places.kafka_broker import kafka_broker
from testbed.places.served import Served
from tests.places.topics import FromTopic, Told, running, server

pytestmark = [pytest.mark.places, pytest.mark.spark]

RECORDS = int(os.environ.get("AIRFLOW_ABS_KAFKA_RECORDS", "60000"))
OUTAGE = float(os.environ.get("AIRFLOW_ABS_OUTAGE", "60"))
"""Seconds."""
SECONDS = 600.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded server that may be killed."""
    yield tmp_path / "state"
    stop_embedded_server(tmp_path / "state")


def numbers(messages: Any) -> Any:
    return messages.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition", "offset")


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
        async with running(place, plan, lambda: server(state, cores[-1]), SECONDS) as told:
            await told.read(RECORDS // 4)
            told.say(f"kill Spark's server {killed}")
            cores.append(4)
            os.kill(killed, signal.SIGKILL)
            await told.read(RECORDS)
        return told

    told = asyncio.run(scene())
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
        async with running(place, plan, lambda: server(state, 2), SECONDS) as told:
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
