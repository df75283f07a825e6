"""What a stream's transform may not do is refused while it is compiled, on a real Connect server."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.sources.rate import Rate
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.stream.compile import StreamProgram, compile_stream

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


@pytest.mark.parametrize(
    ("transform", "message"),
    [
        (
            without_the_stream,
            "stream 'clicks': its transform returns a DataFrame that has an end; expected one derived from its source",
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
