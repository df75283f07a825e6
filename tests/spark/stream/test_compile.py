"""What a stream's transform may not do is refused while it is compiled, on a real Connect server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.sources.rate import Rate
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream, decode_values

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = [pytest.mark.spark, pytest.mark.sample]

LOCK = threading.Lock()


def program(transform: Callable[..., Any] | None, source: Files | Rate | Kafka) -> StreamProgram:
    return StreamProgram("clicks", "clicks 1", source, transform, {}, Files("/mart"), "file:///checkpoint")


def without_the_stream(clicks: Any) -> Any:
    return clicks.sparkSession.range(3)


def of_nothing(clicks: Any) -> Any:
    return None


def executing(clicks: Any) -> Any:
    clicks.count()
    return clicks


def with_a_lock(clicks: Any) -> Any:
    from pyspark.sql import functions as sf

    @sf.udf("long")
    def locked(value):  # type: ignore[no-untyped-def]
        with LOCK:
            return value

    return clicks.select(locked("value").alias("value"))


def test_a_server_without_sparks_kafka_source_is_named_with_what_it_lacks(connect_server: ConnectEndpoint) -> None:
    with open_session(connect_server) as session, pytest.raises(JobGraphError) as caught:
        compile_stream(session, program(None, Kafka("localhost:9092", "clicks")))
    assert str(caught.value) == (
        "stream 'clicks': its Spark server has no Kafka source; start the server with --packages "
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0, or that jar and those it needs"
    )


def test_json_becomes_a_struct_and_what_does_not_fit_fails(connect_server: ConnectEndpoint) -> None:
    source = Kafka("localhost:9092", "clicks", format="json", schema="id BIGINT, at TIMESTAMP")
    with open_session(connect_server) as session:
        texts = """'{"id":7,"at":"2026-01-01T00:00:00Z"}'""", "NULL"
        rows = [session.sql(f"SELECT 1 AS offset, CAST({text} AS BINARY) AS value") for text in texts]
        decoded = decode_values(rows[0], "stream 'clicks'", source)
        assert decoded.schema["value"].dataType.simpleString() == "struct<id:bigint,at:timestamp>"
        assert [row.value.id for row in decoded.collect()] == [7]
        assert [row.value for row in decode_values(rows[1], "stream 'clicks'", source).collect()] == [None]
        wrong = session.sql('SELECT CAST(\'{"id":"x"}\' AS BINARY) AS value')
        with pytest.raises(PySparkException, match="MALFORMED_RECORD_IN_PARSING"):
            decode_values(wrong, "stream 'clicks'", source).collect()


def test_a_server_that_cannot_read_avro_is_told_its_jar(connect_server: ConnectEndpoint) -> None:
    source = Kafka("localhost:9092", "clicks", format="avro", schema='"long"')
    with open_session(connect_server) as session, pytest.raises(JobGraphError) as caught:
        decode_values(session.sql("SELECT CAST('' AS BINARY) AS value"), "stream 'clicks'", source)
    assert str(caught.value) == (
        "stream 'clicks': its Spark server cannot read Avro; start it with the jars that `airflow-abs server jars "
        "kafka` fetches, spark-avro among them"
    )


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ["value AS key"],
            "stream 'clicks': its rows go to a topic and have the columns key; expected also 'value', the content of "
            "each message, such as to_json(struct(*)) AS value",
        ),
        (
            ["value"],
            "stream 'clicks': its rows go to a topic and have the columns value; expected also 'key', by which readers "
            "drop what is there twice, such as CAST(order_id AS STRING) AS key",
        ),
        (
            ["value", "value AS Key", "timestamp"],
            "stream 'clicks': its rows go to a topic, and Spark would drop the column 'timestamp'; expected only "
            "headers, key, partition, value: put the others into value, such as to_json(struct(*)) AS value",
        ),
    ],
)
def test_rows_for_a_topic_have_a_key_and_a_value(
    connect_server: ConnectEndpoint, columns: list[str], message: str
) -> None:
    def as_messages(rows: Any) -> Any:
        return rows.selectExpr(*columns)

    given = replace(program(as_messages, Rate()), sink=Kafka("localhost:9092", "clean"))
    with open_session(connect_server) as session, pytest.raises(JobGraphError) as caught:
        compile_stream(session, given)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            without_the_stream,
            "stream 'clicks': its transform returns a bounded DataFrame; expected one derived from its source",
        ),
        (of_nothing, "stream 'clicks': its transform returned NoneType; expected one DataFrame"),
        (executing, "stream 'clicks': its transform runs an action (count, collect, show, toPandas, ...)"),
        (with_a_lock, "stream 'clicks': a Python function of its transform cannot be sent to Spark ("),
    ],
)
def test_what_a_transform_may_not_do_is_refused_with_the_stream(
    connect_server: ConnectEndpoint, transform: Callable[..., Any], message: str
) -> None:
    with open_session(connect_server) as session, pytest.raises(JobGraphError) as caught:
        compile_stream(session, program(transform, Rate()))
    assert message in str(caught.value)


def test_a_folder_without_files_needs_a_schema(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    with open_session(connect_server) as session, pytest.raises(JobGraphError, match="declare Files") as caught:
        compile_stream(session, program(None, Files(str(tmp_path))))
    assert str(caught.value).startswith(f"stream 'clicks': its source '{tmp_path}' (parquet) matches no files")


def test_the_files_of_a_table_are_no_stream(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    source = Files(str(tmp_path), schema="id BIGINT")
    with open_session(connect_server) as session, pytest.raises(ExchangeError) as caught:
        compile_stream(session, program(None, source))
    assert str(caught.value).startswith(f"stream 'clicks': its source {tmp_path}: is a Delta table, whose log says")


def test_text_that_does_not_fit_its_schema_fails_as_it_does_in_jobs(
    connect_server: ConnectEndpoint, tmp_path: Path
) -> None:
    with open_session(connect_server) as session:
        plan = compile_stream(session, program(None, Files(str(tmp_path), format="json", schema="number BIGINT")))
    start = protos().Plan.FromString(plan).command.write_stream_operation_start
    assert start.query_name == "clicks 1"
    assert start.input.collect_metrics.input.read.data_source.options["mode"] == "FAILFAST"
