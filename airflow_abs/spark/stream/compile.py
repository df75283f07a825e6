"""A declared stream becomes the one command that starts its query; the only part that runs code of the author's."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from pickle import PicklingError
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.glob_pattern import is_glob
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.sources.rate import Rate
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.foreign_logs import names_in, refuse_table
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.spark.compile.source_schema import resolve_files
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import SparkOperationError
from airflow_abs.spark.relations import sql_expression
from airflow_abs.spark.stream.query import ROWS_OUT
from airflow_abs.spark.template import find_session_bound, reads_stream
from airflow_abs.spark.transforms.arguments import coerce_arguments
from airflow_abs.spark.transforms.by_value import pickled_by_value
from airflow_abs.spark.transforms.guard import no_execution

_MESSAGE_COLUMNS = frozenset({"key", "value", "headers", "partition"})


@dataclass(frozen=True, slots=True)
class StreamProgram:
    """What a stream does, already rendered.

    Args:
        name: of the stream, for messages.
        query_name: by which Spark knows the query, and it is found again.
        source: a folder that is read as files come into it, rows of Spark's own making, or topics of Kafka.
        transform: of the one DataFrame that never ends; None to pass it on.
        kwargs: of the transform.
        sink: a folder to which files are added, or a topic that gets messages.
        checkpoint: URI of the folder in which Spark keeps what it has read, and its state.
        available_now: whether it ends once it has read what is there.
        interval: of batches, such as ``10 seconds``; "" for one right after the other.
    """

    name: str
    query_name: str
    source: Files | Rate | Kafka
    transform: Callable[..., Any] | None
    kwargs: Mapping[str, Any]
    sink: Files | Kafka
    checkpoint: str
    available_now: bool = False
    interval: str = ""

    @property
    def who(self) -> str:
        """As messages begin."""
        return f"stream {self.name!r}"


def errors_of_spark() -> tuple[type[Exception], ...]:
    """What Spark, or its client, raises while a stream is compiled and tried."""
    from pyspark.errors import PySparkException

    return PySparkException, SparkOperationError


def compile_stream(session: Any, program: StreamProgram, open_path: Callable[[str], ExchangePath] = Path) -> bytes:
    """The serialised `spark.connect.Plan` that starts the query.

    Args:
        session: only its analyser is asked.
        program: as above.
        open_path: for the files of a source whose schema is inferred.

    Raises:
        JobGraphError: the transform returns no DataFrame, one without the stream, one that only this session reads, or
            one with a Python function that cannot be sent.
        ExchangeError: the source is a table's folder, or cannot be listed.
        AnalysisException: Spark's own, with a note that names the stream.
    """
    frame = _read(session, program, open_path)
    with pickled_by_value():
        try:
            output = _call(session, program, frame)
            relation = output._plan.to_proto(session.client).root
        except PicklingError as error:
            raise JobGraphError(
                f"stream {program.name!r}: a Python function of its transform cannot be sent to Spark ({error}). It "
                "travels with all that it refers to: create locks, connections and the like inside it"
            ) from error
    if bound := find_session_bound(relation):
        raise JobGraphError(f"stream {program.name!r}: the plan of its transform holds {bound}")
    if not reads_stream(relation):
        raise JobGraphError(
            f"stream {program.name!r}: its transform returns a bounded DataFrame; expected one derived from its "
            "source. For bounded data, use an AdaptiveSparkOperator in an AdaptiveSparkJob"
        )
    if isinstance(program.sink, Kafka):
        _check_messages(program.who, output.columns)
    proto = protos()
    start = proto.WriteStreamOperationStart(
        input=proto.Relation(
            collect_metrics=proto.CollectMetrics(
                input=relation, name=ROWS_OUT, metrics=[sql_expression("count(1) AS rows")]
            )
        ),
        output_mode="append",
        query_name=program.query_name,
        options={"checkpointLocation": program.checkpoint},
    )
    _write_to(start, program.sink)
    if program.available_now:
        start.available_now = True
    else:
        start.processing_time_interval = program.interval or "0 seconds"
    return bytes(proto.Plan(command=proto.Command(write_stream_operation_start=start)).SerializeToString())


def _write_to(start: Any, sink: Files | Kafka) -> None:
    if isinstance(sink, Kafka):
        start.format = "kafka"
        start.options.update(sink.sink_options)
        return
    start.format, start.path = sink.format, sink.uri
    start.options.update(sink.options)
    start.partitioning_column_names.extend(sink.partition_by)


def _check_messages(who: str, columns: Collection[str]) -> None:
    known = {name.lower() for name in columns}
    for name, example in (("value", "to_json(struct(*)) AS value"), ("key", "CAST(order_id AS STRING) AS key")):
        if name not in known:
            why = "by which readers drop what is there twice" if name == "key" else "the content of each message"
            raise JobGraphError(
                f"{who}: its rows go to a topic and have the columns {', '.join(columns)}; expected also {name!r}, "
                f"{why}, such as {example}"
            )
    if unknown := sorted(known - _MESSAGE_COLUMNS):
        raise JobGraphError(
            f"{who}: its rows go to a topic, and Spark would drop the column {unknown[0]!r}; expected only "
            f"{', '.join(sorted(_MESSAGE_COLUMNS))}: put the others into value, such as to_json(struct(*)) AS value"
        )


def _read(session: Any, program: StreamProgram, open_path: Callable[[str], ExchangePath]) -> Any:
    source = program.source
    if isinstance(source, Rate):
        return session.readStream.format("rate").option("rowsPerSecond", source.rows_per_second).load()
    if isinstance(source, Kafka):
        return _read_kafka(session, program.who, source)
    if not is_glob(source.path):
        folder = locate(open_path(source.path))
        try:
            refuse_table(f"{program.who}: its source {folder}", folder, names_in(folder))
        except storage_errors() as error:
            raise_unlisted(f"{program.who}: its source {folder}", error)
    files, schema = resolve_files(session, program.who, source, open_path)
    return session.readStream.format(files.format).schema(schema).options(**files.options).load(files.uri)


def _read_kafka(session: Any, who: str, source: Kafka) -> Any:
    from pyspark.errors import AnalysisException

    frame = session.readStream.format("kafka").options(**source.spark_options).load()
    try:
        frame.schema  # noqa: B018 - Spark looks for its source
    except AnalysisException as error:
        if "data source: kafka" not in str(error).lower():
            raise
        version = session.version
        raise JobGraphError(
            f"{who}: its Spark server has no Kafka source; start the server with "
            f"--packages org.apache.spark:spark-sql-kafka-0-10_2.13:{version}, or that jar and those it needs"
        ) from error
    return decode_values(frame, who, source)


def decode_values(frame: Any, who: str, source: Kafka) -> Any:
    """The frame with `value` as its source's format says.

    Raises:
        JobGraphError: the server cannot read Avro.
    """
    if not source.format:
        return frame
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf
    from pyspark.sql.avro.functions import from_avro

    strict, value = {"mode": "FAILFAST"}, sf.col("value")
    if source.format == "json":
        return frame.withColumn("value", sf.from_json(value.cast("string"), source.schema, strict))
    decoded = frame.withColumn("value", from_avro(value, source.schema, strict))
    try:
        decoded.schema  # noqa: B018 - Spark looks for its reader
    except AnalysisException as error:
        if "AVRO" not in (error.getCondition() or ""):
            raise
        raise JobGraphError(
            f"{who}: its Spark server cannot read Avro; start it with the jars that `airflow-abs server jars kafka` "
            "fetches, spark-avro among them"
        ) from error
    return decoded


def _call(session: Any, program: StreamProgram, frame: Any) -> Any:
    if program.transform is None:
        return frame
    kwargs = coerce_arguments(program.who, program.transform, program.kwargs)
    with no_execution(session, program.who):
        try:
            output = program.transform(frame, **kwargs)
            if isinstance(output, type(frame)):
                output.schema  # noqa: B018 - Spark analyses it
                return output
        except Exception as error:
            error.add_note(f"raised by the transform of stream {program.name!r} while it was compiled")
            raise
    raise JobGraphError(
        f"stream {program.name!r}: its transform returned {type(output).__name__}; expected one DataFrame"
    )
