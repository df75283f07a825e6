"""What may be declared of a stream, and what becomes of it in a DAG."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkStream, Files, IcebergTable, Kafka, Rate, Rescale
from airflow_abs.airflow_abilities import AirflowFailException
from airflow_abs.core.errors import JobGraphError
from airflow_abs.decorators.adaptive_spark_stream import adaptive_spark_stream_task
from airflow_abs.exchange.errors import CheckpointHeldError, DamagedFileError
from airflow_abs.execution.task_end import error_to_json
from tests.dag_serialization import DagSerialization


def passes(clicks: Any) -> Any:
    return clicks


def stream(**options: Any) -> AdaptiveSparkStream:
    given = {
        "task_id": "clicks",
        "source": Files("/landing/{{ ds }}"),
        "transform": passes,
        "sink": Files("/mart/clicks", mode="append"),
        "checkpoint": "/mart/checkpoint",
    }
    return AdaptiveSparkStream(**{**given, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"source": IcebergTable("lake.db.clicks")},
            "which is bounded; expected Files(...), Kafka(...) or Rate(...). For a table, use an AdaptiveSparkOperator "
            "in an AdaptiveSparkJob, which reads one snapshot per run; for arriving files, Files(..., "
            "incremental=True) works there, too",
        ),
        (
            {"source": Files("/landing", incremental=True)},
            "stream 'clicks': its source has incremental=True, which a stream does not need: its checkpoint records "
            "what it has read; drop it",
        ),
        (
            {"sink": Files("/mart")},
            "stream 'clicks': its sink is Files(..., mode='overwrite'); a stream adds rows, batch by batch: expected "
            "Files(..., mode='append') or Kafka(...). To replace what is there, use an AdaptiveSparkOperator in a job",
        ),
        (
            {"sink": Kafka("k:9092", ["a", "b"])},
            "stream 'clicks': its sink is the topics a, b; expected one: let another stream write to the next",
        ),
        (
            {"source": Kafka("k:9092", ["b", "a"]), "sink": Kafka("k:9092", "a")},
            "stream 'clicks': its sink 'a' is a topic that it reads, so it would read its own rows forever; give it "
            "another topic",
        ),
        (
            {"sink": Kafka("k:9092", "a", format="json", schema="id BIGINT")},
            "stream 'clicks': its sink has the format json, which only a source can have; let the transform build "
            "the value, "
            "such as to_json(struct(*)) AS value",
        ),
        (
            {"sink": Kafka("k:9092", "a", {"startingOffsets": "earliest"})},
            "stream 'clicks': its sink has the option startingOffsets, which is one of a source; expected settings of "
            "Kafka's producer, such as kafka.linger.ms",
        ),
        (
            {"sink": Kafka("k:9092", "a"), "rescale": Rescale(repartition_state="local[2]"), "slots": 4},
            "stream 'clicks': rescale= has repartition_state, which needs Spark's log of batches in the sink, and a "
            "topic has none; drop it, or let the sink be Files(..., mode='append')",
        ),
        (
            {"sink": print},
            "stream 'clicks': its sink is the function print, to be called with each batch; expected Files(..., "
            "mode='append'). Let the stream append files, and a job read the new ones: "
            "AdaptiveSparkOperator(source=Files(..., incremental=True))",
        ),
        (
            {"sink": Files("/mart", mode="append", sort_by=["page"])},
            "stream 'clicks': its sink has sort_by or files, which only the sink of an AdaptiveSparkOperator can have; "
            "drop them",
        ),
        (
            {"slots": 2, "sufficient_slots": 3},
            "stream 'clicks': sufficient_slots is 3 and slots is 2; expected 1 <= sufficient_slots <= slots",
        ),
        (
            {"available_now": True, "interval": "10 seconds"},
            "stream 'clicks': it has an interval, and available_now=True, which ends after the batches that there are; "
            "drop one of them",
        ),
        (
            {"source": Files("/landing", bounded=True), "interval": "10 seconds"},
            "stream 'clicks': it has an interval, and a bounded source (bounded=True), which ends after the batches "
            "that there are; drop one of them",
        ),
        (
            {"rescale": Rescale()},
            "stream 'clicks': it has rescale=, but slots equals sufficient_slots, so it could never rescale; raise "
            "slots, or set it to None for all slots",
        ),
        (
            {"rescale": Rescale(), "slots": 4, "spark_conf": {"spark.sql.shuffle.partitions": 3}},
            "stream 'clicks': it has rescale=, which sets spark.sql.shuffle.partitions by the slots, and the same "
            "setting in spark_conf; drop one of them",
        ),
        (
            {
                "rescale": Rescale(repartition_state="local[2]"),
                "slots": 4,
                "spark_conf": {"spark.sql.streaming.stateStore.providerClass": "a.b.HDFSBackedStateStoreProvider"},
            },
            "stream 'clicks': rescale= has repartition_state, which Spark has for RocksDB only, and spark_conf sets "
            "spark.sql.streaming.stateStore.providerClass to a.b.HDFSBackedStateStoreProvider; drop one of them",
        ),
        (
            {"rescale": Rescale(files_per_slot=2), "slots": None, "source": Rate()},
            "stream 'clicks': rescale= has files_per_slot, and its source is no folder of files; drop it",
        ),
        (
            {
                "rescale": Rescale(files_per_slot=2),
                "slots": None,
                "source": Files("/landing", options={"maxfilespertrigger": "3"}),
            },
            "stream 'clicks': rescale= has files_per_slot, and its source the option maxFilesPerTrigger, which are "
            "the same; drop one of them",
        ),
        (
            {"rescale": Rescale(records_per_slot=2), "slots": None},
            "stream 'clicks': rescale= has records_per_slot, and its source is no topic of Kafka; drop it",
        ),
        (
            {
                "rescale": Rescale(records_per_slot=2),
                "slots": None,
                "source": Kafka("k:9092", "clicks", {"maxOffsetsPerTrigger": "3"}),
            },
            "stream 'clicks': rescale= has records_per_slot, and its source the option maxOffsetsPerTrigger, which are "
            "the same; drop one of them",
        ),
        (
            {"rescale": Rescale(), "slots": None, "source": Kafka("k:9092", "clicks", {"minPartitions": "3"})},
            "stream 'clicks': it has rescale=, which sets minPartitions by the slots, and its source the same option; "
            "drop one of them",
        ),
    ],
)
def test_what_a_stream_cannot_be_is_refused_with_what_to_use(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobGraphError) as caught:
        stream(**options)
    assert message in str(caught.value)


def test_a_rate_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="Rate: rows_per_second is 0; expected a number of at least 1"):
        Rate(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("", "clicks"),
            "Kafka: servers are '', conn_id is '' and topics are ['clicks']; expected servers='host:port' or a "
            "conn_id, and at least one topic",
        ),
        (
            ("k:9092", "clicks", {}, "kafka_default"),
            "Kafka: servers are 'k:9092', conn_id is 'kafka_default' and topics are ['clicks']; expected "
            "servers='host:port' or a conn_id, and at least one topic",
        ),
        (
            ("k:9092", []),
            "Kafka: servers are 'k:9092', conn_id is '' and topics are []; expected servers='host:port' or a conn_id, "
            "and at least one topic",
        ),
        (
            ("k:9092", "clicks", {}, "", "json"),
            "Kafka: format is 'json' and schema is ''; expected format='json' or 'avro' with a schema of the value, or "
            "neither",
        ),
        (
            ("k:9092", "clicks", {"kafka.sasl.jaas.config": "x"}),
            "Kafka: the option kafka.sasl.jaas.config is a secret, and options are stored next to the checkpoint; give "
            "conn_id=, an Airflow connection that has it",
        ),
        (
            ("k:9092", "clicks", {"subscribe": "x"}),
            "Kafka: the option subscribe repeats servers= or topics=; drop it",
        ),
        (
            ("k:9092", "clicks", {"endingoffsets": '{"clicks":{"0":9}}'}),
            'Kafka: the option endingoffsets is \'{"clicks":{"0":9}}\'; Spark\'s stream ends at no given offset or '
            "time, only at what is there when it starts: expected endingOffsets='latest'. Filter by offset or "
            "timestamp in the transform",
        ),
    ],
)
def test_topics_that_say_nothing_or_something_twice_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=r"^Kafka: ") as caught:
        Kafka(*arguments)
    assert str(caught.value) == message


def test_topics_of_a_connection_travel_with_its_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Kafka(topics=["clicks"], conn_id="kafka_default", format="json", schema="id BIGINT")
    sink = Kafka(topics="clean", options={"kafka.linger.ms": "5"}, conn_id="kafka_out")
    task = stream(source=source, sink=sink)
    program = task.declared("clicks 1").program
    assert (program.source, program.sink) == (source, sink)
    assert sink.sink_options == {
        "kafka.bootstrap.servers": "from-the-connection:9",
        "topic": "clean",
        "kafka.linger.ms": "5",
    }
    instance = SimpleNamespace(map_index=-1, dag_id="d", run_id="r", task_id="clicks")
    stored = task._task({"ti": instance}, "clicks 1", "digest")  # type: ignore[typeddict-item]
    assert (stored.source_conn_id, stored.sink_conn_id, stored.sink) == ("kafka_default", "kafka_out", "")
    connection = {"conn_type": "kafka", "host": "k", "extra": {"sasl.mechanism": "GSSAPI"}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    with pytest.raises(AirflowFailException, match=r"stream 'clicks': connection 'kafka_default': sasl\.mechanism of"):
        task.execute({})


def test_topics_travel_with_their_options() -> None:
    source = Kafka("k:9092", ["clicks", "views"], {"startingOffsets": "earliest"})
    program = stream(source=source).declared("clicks 1").program
    assert program.source == source
    assert source.spark_options == {
        "kafka.bootstrap.servers": "k:9092",
        "subscribe": "clicks,views",
        "startingOffsets": "earliest",
    }


@pytest.mark.parametrize(
    ("source", "bound"),
    [
        (Files("/landing", bounded=True), "bounded=True"),
        (Kafka("k:9092", "clicks", {"endingOffsets": "latest"}), "endingOffsets='latest'"),
        (Files("/landing"), ""),
        (Kafka("k:9092", "clicks", {"startingOffsets": "latest"}), ""),
        (Rate(), ""),
    ],
)
def test_a_stream_of_a_bounded_source_runs_as_a_batch(source: Files | Kafka | Rate, bound: str) -> None:
    made = stream(source=source)
    assert (made.declared("clicks 1").program.available_now, made.bound) == (bool(bound), bound)


def test_the_end_of_a_topic_is_the_triggers_and_not_an_option() -> None:
    source = Kafka("k:9092", "clicks", {"EndingOffsets": "latest", "startingOffsets": "earliest"})
    assert "endingoffsets" not in {name.lower() for name in source.spark_options}
    assert source.spark_options["startingOffsets"] == "earliest"


def test_a_stream_survives_the_way_through_airflows_database() -> None:
    with DAG("streams", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as dag:
        stream()
        adaptive_spark_stream_task(
            source=Rate(5), sink=Files("/mart/rates", mode="append"), checkpoint="/mart/rates_checkpoint"
        )(passes)()
    found = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert sorted(found.task_ids) == ["clicks", "passes"]


def test_a_decorated_function_takes_its_arguments_from_the_call() -> None:
    def above(clicks: Any, least: int, most: int) -> Any: ...

    made = adaptive_spark_stream_task(
        source=Rate(), sink=Files("/mart", mode="append"), checkpoint="/c", available_now=True
    )(above)
    assert made(3, most=7).transform_kwargs == {"least": 3, "most": 7}
    assert made.override(task_id="other")(1, 2).task_id == "other"


@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        (
            {"status": "FAILED", "reason": "failed in batch 7"},
            AirflowFailException,
            "stream 'clicks': failed in batch 7",
        ),
        (
            {"status": "CANCELED", "reason": "canceled"},
            AirflowFailException,
            "stream 'clicks': was given up (canceled)",
        ),
        ({"error": error_to_json(CheckpointHeldError("c is held"))}, CheckpointHeldError, "c is held"),
        ({"error": error_to_json(DamagedFileError("x is damaged", path="x"))}, AirflowFailException, "x is damaged"),
    ],
)
def test_a_worker_is_woken_to_raise_what_went_wrong(event: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        stream().execute_complete({}, event)  # type: ignore[typeddict-item]
    assert message in str(caught.value)
