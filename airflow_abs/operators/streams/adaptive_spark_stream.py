"""`AdaptiveSparkStream`: one streaming query, kept running for as long as its task."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

from airflow_abs.airflow_abilities import AirflowFailException
from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.kafka import Kafka
from airflow_abs.exchange.sources.rate import Rate
from airflow_abs.execution.streams.stream import StreamTask
from airflow_abs.execution.task_end import error_from_json
from airflow_abs.hooks.storage import open_path
from airflow_abs.restart_strategy import RestartStrategy, check_strategy, strategy_to_json
from airflow_abs.triggers.streams.stream import StreamTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.core.streaming.rescale import Rescale
    from airflow_abs.operators.streams.compilation import DeclaredStream


class AdaptiveSparkStream(BaseOperator):
    """Keep one streaming query running, as one task that stays in the triggerer.

    The worker compiles the transform once. Then the triggerer waits for slots, starts the query on the Connect server,
    watches it, and restarts it from its checkpoint when it fails. A triggerer that takes over finds the query running.
    Marking or clearing the task stops the query; the next try resumes from the checkpoint.

    Every row of the source is in the sink's folder exactly once for readers that obey Spark's log of it
    (`_spark_metadata`, as Spark itself does); others may see files of unfinished batches. A topic may get a row twice.

    Args:
        task_id: of the task.
        source: a folder whose files are read as they arrive, with its `schema` unless it already has files; or `Rate`,
            or `Kafka`.
        transform: function that takes the stream, an unbounded DataFrame, and returns one; by default rows are passed
            on.
        sink: the folder to which files are added, `Files(..., mode="append")`; or a topic of `Kafka`, which gets rows
            at least once.
        checkpoint: a folder for this stream alone, which Airflow and Spark both reach; it holds the stream's position
            and state.
        transform_kwargs: JSON values for the transform's further parameters; templated.
        available_now: True to read what is there and end, for a stream that runs on a schedule. Bounded sources
            (``Files(..., bounded=True)``, ``Kafka(..., options={"endingOffsets": "latest"})``) are always read this
            way.
        interval: time between two batches, such as ``"10 seconds"``; by default the next batch starts at once.
        restart_strategy: when a failed query restarts. Three failures in a row in the same way on the same rows always
            end it, unless the source does not answer.
        slots: Spark tasks at once; with this many the query starts immediately, with `sufficient_slots` once they are
            stable. None: all that the cluster has.
        resource_timeout, resource_stabilization: seconds to wait for slots, and for stable ones.
        rescale: which numbers follow the slots between these two, by restarts; by default a running query stays as it
            is.
        conn_id: Airflow connection of type ``spark_connect``.
        spark_conf: Spark's session settings.

    Raises:
        JobGraphError: a sink that does not append, an incremental source, or arguments that do not fit together.
    """

    template_fields: Sequence[str] = ("source", "sink", "checkpoint", "transform_kwargs", "spark_conf")
    ui_color = "#e6f4ea"

    def __init__(  # noqa: PLR0913 - the arguments of a stream
        self,
        *,
        source: Files | Rate | Kafka,
        sink: Files | Kafka,
        checkpoint: str,
        transform: Callable[..., Any] | None = None,
        transform_kwargs: Mapping[str, Any] | None = None,
        available_now: bool = False,
        interval: str = "",
        restart_strategy: RestartStrategy | None = None,
        slots: int | None = 1,
        sufficient_slots: int = 1,
        resource_timeout: float = 300.0,
        resource_stabilization: float = 10.0,
        rescale: Rescale | None = None,
        conn_id: str = "spark_connect_default",
        spark_conf: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _check(self.task_id, source, sink)
        if sufficient_slots < 1 or (slots is not None and slots < sufficient_slots):
            raise JobGraphError(
                f"stream {self.task_id!r}: sufficient_slots is {sufficient_slots} and slots is {slots}; expected 1 <= "
                "sufficient_slots <= slots"
            )
        if (available_now or source.bound) and interval:
            ends = "available_now=True" if available_now else f"a bounded source ({source.bound})"
            raise JobGraphError(
                f"stream {self.task_id!r}: it has an interval, and {ends}, which ends after the batches that there "
                "are; drop one of them"
            )
        if rescale is not None:
            _check_rescale(self.task_id, rescale, source, sink, spark_conf or {}, slots == sufficient_slots)
        self.source = source.to_json()
        self.sink = sink.to_json()
        self.checkpoint = checkpoint
        self.transform = transform
        self.transform_kwargs = dict(transform_kwargs or {})
        self.available_now = available_now or bool(source.bound)
        self.bound = source.bound
        self.interval = interval
        self.restart = strategy_to_json(check_strategy(restart_strategy))
        self.slots = slots
        self.sufficient_slots = sufficient_slots
        self.resource_timeout = resource_timeout
        self.resource_stabilization = resource_stabilization
        self.rescale = rescale
        self.conn_id = conn_id
        self.spark_conf = dict(spark_conf or {})

    def execute(self, context: Context) -> None:
        from airflow_abs.exchange.errors import CheckpointMisfitError
        from airflow_abs.exchange.streaming.stored_query import store_query
        from airflow_abs.operators.streams.compilation import compile_declared

        self._check_connections()
        name = f"{self.task_id} {uuid.uuid4().hex[:12]}"
        try:
            plan = compile_declared(self.declared(name))
        except CheckpointMisfitError as error:
            raise AirflowFailException(str(error)) from error
        task = self._task(context, name, store_query(open_path(self.checkpoint), plan))
        if self.bound:
            self.log.info("it runs as a batch, which ends: its source is bounded (%s)", self.bound)
        self.log.info("compiled; the triggerer supervises it from here on")
        self.defer(trigger=StreamTrigger(**task.to_json()), method_name="execute_complete")

    def _check_connections(self) -> None:
        """A mistake in a topic's connection fails here; the triggerer would take it for an outage."""
        from airflow_abs.core.errors import InvalidValueError
        from airflow_abs.hooks.kafka import kafka_options

        for conn_id in filter(None, (self.source.get("conn_id"), self.sink.get("conn_id"))):
            try:
                kafka_options(conn_id)
            except InvalidValueError as error:
                raise AirflowFailException(f"stream {self.task_id!r}: {error}") from error

    def execute_complete(self, context: Context, event: dict[str, Any]) -> None:
        """The trigger ends the task of a stream that ended well; a worker is woken only to say what went wrong."""
        if "error" in event:
            error = error_from_json(event["error"])
            if getattr(error, "restartable", True):
                raise error
            raise AirflowFailException(str(error)) from error
        if event["status"] == "CANCELED":
            raise AirflowFailException(f"stream {self.task_id!r}: was given up ({event['reason']})")
        raise AirflowFailException(f"stream {self.task_id!r}: {event['reason']}")

    def declared(self, query_name: str) -> DeclaredStream:
        """What is to be compiled, with its template fields as they are now."""
        from airflow_abs.exchange.paths import uri_for_spark
        from airflow_abs.exchange.streaming.spark_checkpoint import SPARK_FOLDER
        from airflow_abs.operators.streams.compilation import DeclaredStream
        from airflow_abs.spark.stream.compile import StreamProgram

        program = StreamProgram(
            name=self.task_id,
            query_name=query_name,
            source=_source_from_json(self.source),
            transform=self.transform,
            kwargs=self.transform_kwargs,
            sink=_sink_from_json(self.sink),
            checkpoint=uri_for_spark(open_path(self.checkpoint) / SPARK_FOLDER),
            available_now=self.available_now,
            interval=self.interval,
        )
        return DeclaredStream(program, self.checkpoint, self.conn_id, self._conf, self.resource_timeout)

    @property
    def _conf(self) -> dict[str, str]:
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in self.spark_conf.items()
        }

    def _task(self, context: Context, name: str, digest: str) -> StreamTask:
        instance = context["ti"]
        index = "" if instance.map_index in (None, -1) else f"[{instance.map_index}]"
        return StreamTask(
            conn_id=self.conn_id,
            checkpoint=self.checkpoint,
            digest=digest,
            name=name,
            owner=f"{instance.dag_id}/{instance.run_id}/{instance.task_id}{index}",
            conf=self._conf,
            ends=self.available_now,
            bound=self.bound,
            restart=self.restart,
            desired_slots=self.slots,
            sufficient_slots=self.sufficient_slots,
            resource_timeout=self.resource_timeout,
            resource_stabilization=self.resource_stabilization,
            rescale=asdict(self.rescale) if self.rescale is not None else None,
            dag_id=instance.dag_id,
            task_id=instance.task_id,
            run_id=instance.run_id,
            sink=self.sink.get("path", ""),
            source_conn_id=self.source.get("conn_id", ""),
            sink_conn_id=self.sink.get("conn_id", ""),
        )


def _source_from_json(source: Mapping[str, Any]) -> Files | Rate | Kafka:
    match source.get("kind"):
        case "rate":
            return Rate(source["rows_per_second"])
        case "kafka":
            return Kafka.from_json(source)
    return Files.from_json(source)


def _sink_from_json(sink: Mapping[str, Any]) -> Files | Kafka:
    return Kafka.from_json(sink) if sink.get("kind") == "kafka" else Files.from_json(sink)


def _check(task_id: str, source: object, sink: object) -> None:
    if not isinstance(source, (Files, Rate, Kafka)):
        raise JobGraphError(
            f"stream {task_id!r}: its source is {source!r}, which is bounded; expected Files(...), Kafka(...) or "
            "Rate(...). For a table, use an AdaptiveSparkOperator in an AdaptiveSparkJob, which reads one snapshot "
            "per run; for arriving files, Files(..., incremental=True) works there, too"
        )
    if isinstance(source, Files) and source.incremental:
        raise JobGraphError(
            f"stream {task_id!r}: its source has incremental=True, which a stream does not need: its checkpoint "
            "records what it has read; drop it"
        )
    if isinstance(source, Files) and source.prune:
        raise JobGraphError(
            f"stream {task_id!r}: its source has prune=, which names a vertex of a job; filter in the transform"
        )
    if callable(sink):
        raise JobGraphError(
            f"stream {task_id!r}: its sink is the function {getattr(sink, '__name__', sink)}, to be called with each "
            "batch; expected Files(..., mode='append'). Let the stream append files, and a job read the new ones: "
            "AdaptiveSparkOperator(source=Files(..., incremental=True))"
        )
    if isinstance(sink, Kafka):
        _check_topic(task_id, sink)
        if isinstance(source, Kafka) and (sink.servers, sink.conn_id) == (source.servers, source.conn_id):
            _check_other_topic(task_id, source, sink)
        return
    if not isinstance(sink, Files) or sink.mode != "append":
        found = f"Files(..., mode={sink.mode!r})" if isinstance(sink, Files) else repr(sink)
        raise JobGraphError(
            f"stream {task_id!r}: its sink is {found}; a stream adds rows, batch by batch: expected Files(..., "
            "mode='append') or Kafka(...). To replace what is there, use an AdaptiveSparkOperator in a job"
        )
    if sink.sort_by or sink.files is not None:
        raise JobGraphError(
            f"stream {task_id!r}: its sink has sort_by or files, which only the sink of an AdaptiveSparkOperator can "
            "have; drop them"
        )


def _check_topic(task_id: str, sink: Kafka) -> None:
    if len(sink.topics) != 1:
        raise JobGraphError(
            f"stream {task_id!r}: its sink is the topics {', '.join(sink.topics)}; expected one: let another stream "
            "write to the next"
        )
    if sink.format:
        raise JobGraphError(
            f"stream {task_id!r}: its sink has the format {sink.format}, which only a source can have; let the "
            "transform build the value, such as to_json(struct(*)) AS value"
        )
    for name in sink.options:
        if not name.startswith("kafka."):
            raise JobGraphError(
                f"stream {task_id!r}: its sink has the option {name}, which is one of a source; expected settings of "
                "Kafka's producer, such as kafka.linger.ms"
            )


def _check_other_topic(task_id: str, source: Kafka, sink: Kafka) -> None:
    if sink.topics[0] in source.topics:
        raise JobGraphError(
            f"stream {task_id!r}: its sink {sink.topics[0]!r} is a topic that it reads, so it would read its own "
            "rows forever; give it another topic"
        )


def _check_rescale(
    task_id: str,
    rescale: Rescale,
    source: Files | Rate | Kafka,
    sink: Files | Kafka,
    spark_conf: Mapping[str, Any],
    is_fixed: bool,
) -> None:
    """One number has one author."""
    if is_fixed:
        raise JobGraphError(
            f"stream {task_id!r}: it has rescale=, but slots equals sufficient_slots, so it could never rescale; "
            "raise slots, or set it to None for all slots"
        )
    if "spark.sql.shuffle.partitions" in spark_conf:
        raise JobGraphError(
            f"stream {task_id!r}: it has rescale=, which sets spark.sql.shuffle.partitions by the slots, and the same "
            "setting in spark_conf; drop one of them"
        )
    if rescale.repartition_state and isinstance(sink, Kafka):
        raise JobGraphError(
            f"stream {task_id!r}: rescale= has repartition_state, which needs Spark's log of batches in the sink, and "
            "a topic has none; drop it, or let the sink be Files(..., mode='append')"
        )
    _check_state_store(task_id, rescale, spark_conf)
    options = {} if isinstance(source, Rate) else source.options
    _check_follows(task_id, "files_per_slot", rescale.files_per_slot, isinstance(source, Files), options)
    _check_follows(task_id, "records_per_slot", rescale.records_per_slot, isinstance(source, Kafka), options)
    if isinstance(source, Kafka) and any(name.lower() == "minpartitions" for name in options):
        raise JobGraphError(
            f"stream {task_id!r}: it has rescale=, which sets minPartitions by the slots, and its source the same "
            "option; drop one of them"
        )


_FOLLOWS = {
    "files_per_slot": ("folder of files", "maxFilesPerTrigger"),
    "records_per_slot": ("topic of Kafka", "maxOffsetsPerTrigger"),
}


def _check_follows(task_id: str, name: str, number: int | None, is_kind: bool, options: Mapping[str, str]) -> None:
    if number is None:
        return
    kind, option = _FOLLOWS[name]
    if not is_kind:
        raise JobGraphError(f"stream {task_id!r}: rescale= has {name}, and its source is no {kind}; drop it")
    if any(each.lower() == option.lower() for each in options):
        raise JobGraphError(
            f"stream {task_id!r}: rescale= has {name}, and its source the option {option}, which are the same; drop "
            "one of them"
        )


def _check_state_store(task_id: str, rescale: Rescale, spark_conf: Mapping[str, Any]) -> None:
    from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE

    store = spark_conf.get(STATE_STORE, ROCKSDB)
    if rescale.repartition_state and store != ROCKSDB:
        raise JobGraphError(
            f"stream {task_id!r}: rescale= has repartition_state, which Spark has for RocksDB only, and spark_conf "
            f"sets {STATE_STORE} to {store}; drop one of them"
        )
