"""Streams from a real Kafka broker: exactly once over killed servers, other slots and a broker that is away.

`make test-kafka` fetches broker and connector and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from airflow_abs import AdaptiveSparkStream, Files, Kafka
from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.slots_wanted import SlotsWanted
from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.streaming.stored_query import store_query
from airflow_abs.restart_strategy import NeverRestart
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import embedded_status, stop_embedded_server
from airflow_abs.spark.stream.fit import Candidate, check_fit
from airflow_abs.triggers.streams.stream import StreamTrigger
from testbed.places.kafka_broker import KafkaBroker, kafka_broker
from tests.places.topics import IMPATIENT, FromTopic, Told, running, server
from tests.spark.stream.streams import SCHEMA

if TYPE_CHECKING:
    from airflow_abs.core.streaming.supervision import Ended
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.places, pytest.mark.spark]

RECORDS = int(os.environ.get("AIRFLOW_ABS_KAFKA_RECORDS", "60000"))
OUTAGE = float(os.environ.get("AIRFLOW_ABS_OUTAGE", "60"))
"""Seconds."""
SECONDS = 600.0
_PLAIN = {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    with kafka_broker(tmp_path_factory.mktemp("kafka")) as found:
        yield found


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    """Of an embedded server that may be killed."""
    yield tmp_path / "state"
    stop_embedded_server(tmp_path / "state")


def keyed(messages: Any) -> Any:
    return messages.select("key", "value")


def numbers(messages: Any) -> Any:
    return messages.selectExpr("CAST(CAST(value AS STRING) AS BIGINT) AS n", "partition", "offset")


def test_exactly_once_over_a_killed_server_and_other_slots(broker: KafkaBroker, state: Path, tmp_path: Path) -> None:
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
            await told.read_all()
        return told

    told = asyncio.run(scene())
    assert place.is_exactly_once(RECORDS)
    assert told.slots >= {2, 4}
    behind = [batch.rows_behind for batch in told.batches.values()]
    # with a limit for each batch the first ones leave most of the topic for later, the last one nothing
    assert (behind[0] or 0) > RECORDS // 2, behind
    assert behind[-1] == 0
    assert max(batch.rows for batch in told.batches.values()) <= 4 * (RECORDS // 12)


def test_a_topic_gets_every_message_at_least_once_over_killed_servers(
    broker: KafkaBroker, state: Path, tmp_path: Path
) -> None:
    place = FromTopic(
        server(state, 2), tmp_path, keyed, available_now=False, conf={}, broker=broker.address, topic="raw",
        into="clean", options={"maxOffsetsPerTrigger": str(RECORDS // 10)},
    )  # fmt: skip
    place.produce(0, RECORDS)
    plan = place.compile()

    async def scene() -> Told:
        async with running(place, plan, lambda: server(state, 2), SECONDS) as told:
            for part in (1, 3):
                await told.read(part * RECORDS // 5)
                killed = embedded_status(state).jvm_pid
                assert killed is not None
                told.say(f"kill Spark's server {killed}")
                os.kill(killed, signal.SIGKILL)
            await told.read_all()
        return told

    told = asyncio.run(scene())
    written = place.messages("clean")
    told.say(f"{len(written)} messages with {len(set(written))} keys")
    assert sorted(set(written)) == list(range(RECORDS))


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Callable[[ConnectEndpoint, dict[str, Any]], None]:
    """Makes the connections `spark` and `kafka`."""

    def connections(endpoint: ConnectEndpoint, kafka: dict[str, Any]) -> None:
        spark = {"conn_type": "spark_connect", "host": endpoint.host, "port": endpoint.port, "password": endpoint.token}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK", json.dumps(spark))
        monkeypatch.setenv("AIRFLOW_CONN_KAFKA", json.dumps(kafka))

    return connections


def run_task(source: Files | Kafka, into: str, checkpoint: Path, transform: Any) -> Ended:
    """To the end of what is there, as a worker and then a triggerer would run the task."""
    task = AdaptiveSparkStream(
        task_id="clicks",
        source=source,
        transform=transform,
        sink=Kafka(topics=into, conn_id="kafka"),
        checkpoint=str(checkpoint),
        available_now=True,
        restart_strategy=NeverRestart(),
        conn_id="spark",
    )
    instance = SimpleNamespace(dag_id="places", run_id="run", task_id="clicks", map_index=-1, try_number=1)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({"ti": instance})  # type: ignore[typeddict-item]
    trigger = deferred.value.trigger
    assert isinstance(trigger, StreamTrigger)
    return asyncio.run(trigger._supervise())


def test_the_password_of_a_connection_is_only_where_it_is_needed(
    broker: KafkaBroker, state: Path, tmp_path: Path, connect: Callable[[ConnectEndpoint, dict[str, Any]], None]
) -> None:
    (events := tmp_path / "events").mkdir()
    endpoint = server(
        state, 2, **{"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}", **_PLAIN}
    )
    place = FromTopic(endpoint, tmp_path, broker=broker.address, topic="guarded")
    place.produce(0, 1000)
    secure = broker.secure
    guarded = Kafka(topics=["guarded"], options={"startingOffsets": "earliest", **IMPATIENT}, conn_id="kafka")
    connect(endpoint, secure.connection | {"password": "not-theirs"})
    refused = run_task(guarded, "guarded_out", tmp_path / "refused", keyed)
    print(f"with another password: {refused.status}, {refused.reason.splitlines()[0][:200]}")
    assert refused.status == "FAILED"
    assert "Authentication failed" in refused.reason
    assert "not-theirs" not in refused.reason
    connect(endpoint, secure.connection)
    assert run_task(guarded, "guarded_out", tmp_path / "taken", keyed).status == "FINISHED"
    assert place.messages("guarded_out") == list(range(1000))
    stop_embedded_server(state)
    found = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("guarded_out" in path.read_text(errors="replace") for path in events.iterdir())  # it tells of the query
    assert [path for path in found if secure.password.encode() in path.read_bytes()] == []
    print(f"the password is in none of {len(found)} files: checkpoint, event log, log of the server")


def test_each_run_sends_what_a_job_has_published_since(
    broker: KafkaBroker, state: Path, tmp_path: Path, connect: Callable[[ConnectEndpoint, dict[str, Any]], None]
) -> None:
    def as_messages(orders: Any) -> Any:
        return orders.selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")

    endpoint = server(state, 2)
    place = FromTopic(endpoint, tmp_path, broker=broker.address)
    connect(endpoint, broker.secure.connection)
    for day in range(2):
        place.deliver(day)
        source = Files(str(tmp_path / "in"), schema=SCHEMA)
        assert run_task(source, "orders", tmp_path / "sent", as_messages).status == "FINISHED"
        assert place.messages("orders") == list(range(100 * (day + 1)))


def test_a_value_in_avro_is_read_by_its_schema(
    broker: KafkaBroker, state: Path, tmp_path: Path, connect: Callable[[ConnectEndpoint, dict[str, Any]], None]
) -> None:
    from pyspark.sql import functions as sf
    from pyspark.sql.avro.functions import to_avro

    def doubled(clicks: Any) -> Any:
        return clicks.selectExpr("CAST(value.id * 2 AS STRING) AS key", "to_json(value) AS value")

    fields = [{"name": "id", "type": "long"}, {"name": "page", "type": "string"}]
    schema = json.dumps({"type": "record", "name": "click", "fields": fields})
    endpoint = server(state, 2)
    place = FromTopic(endpoint, tmp_path, broker=broker.address)
    connect(endpoint, broker.secure.connection)
    with open_session(endpoint) as session:
        value = to_avro(sf.struct(sf.col("id"), sf.lit("home").alias("page")), schema)
        rows = session.range(100).select(value.alias("value")).write.format("kafka")
        rows.option("kafka.bootstrap.servers", broker.address).option("topic", "avro").save()
    source = Kafka(
        topics="avro", options={"startingOffsets": "earliest"}, conn_id="kafka", format="avro", schema=schema
    )
    assert run_task(source, "from_avro", tmp_path / "read", doubled).status == "FINISHED"
    assert place.messages("from_avro") == list(range(0, 200, 2))


def test_a_broker_that_is_away_is_waited_for(broker: KafkaBroker, state: Path, tmp_path: Path) -> None:
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
    broker: KafkaBroker, state: Path, tmp_path: Path
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
