"""What a stream runs, and what of it follows the slots: settings of its session, and how much one batch reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.query import SESSION_SETTINGS
from airflow_abs.spark.template import relations_in

PARTITIONS = "spark.sql.shuffle.partitions"
FILES, RECORDS, READ_PARTITIONS = "maxFilesPerTrigger", "maxOffsetsPerTrigger", "minPartitions"
_REDACTED = "spark.sql.redaction.string.regex"
_SECRETS = r'key: "kafka\.(?:sasl\.jaas\.config|ssl\.keystore\.key|ssl\.key\.password)"\s+value: "(?:[^"\\]|\\.)*"'
"""As a plan's text has them, which Spark shows on its pages and in its event log."""


@dataclass(frozen=True, slots=True)
class Stream:
    """What is to run.

    Args:
        name: of the query, and in messages.
        plan: the command that starts it, see `compile_stream`.
        conf: settings of its Spark session.
        poll_seconds: between two looks at it.
        rescale: what of it follows the slots; None: nothing does.
        source_options, sink_options: of its topics, with their secrets: asked at each start, which may block, and
            stored nowhere.
    """

    name: str
    plan: bytes = field(repr=False)
    conf: Mapping[str, str]
    poll_seconds: float = 2.0
    rescale: Rescale | None = None
    source_options: Callable[[], Mapping[str, str]] = dict
    sink_options: Callable[[], Mapping[str, str]] = dict

    def at(self, slots: int) -> tuple[dict[str, str], bytes]:
        """Settings of its session and the command that starts it, for so many slots.

        Raises:
            SparkOperationError: the options of its topics are not to be had now.
        """
        conf, files, topics = {**SESSION_SETTINGS, **self.conf}, {}, dict(self.source_options())
        sink = self.sink_options()
        if topics or sink:
            conf[_REDACTED] = "|".join(filter(None, [_SECRETS, conf.get(_REDACTED, "")]))
        if self.rescale is not None:
            partitions = self.rescale.partitions(slots)
            files = _given({FILES: self.rescale.files(slots)})
            topics |= _given({RECORDS: self.rescale.records(slots), READ_PARTITIONS: partitions})
            store = {STATE_STORE: ROCKSDB} if self.rescale.repartition_state else {}
            conf = {**store, **conf, PARTITIONS: str(partitions)}
        return conf, _with_options(self.plan, files, topics, sink) if files or topics or sink else self.plan

    def partitions(self, slots: int) -> int | None:
        """Of its shuffles with so many slots; None if they do not follow them."""
        return None if self.rescale is None else self.rescale.partitions(slots)


def _given(options: Mapping[str, int | None]) -> dict[str, str]:
    return {name: str(value) for name, value in options.items() if value is not None}


def _with_options(plan: bytes, files: Mapping[str, str], topics: Mapping[str, str], sink: Mapping[str, str]) -> bytes:
    """The command that starts the query, whose folders, topics and sink have these options, too."""
    started = protos().Plan.FromString(plan)
    start = started.command.write_stream_operation_start
    start.options.update(sink)
    for relation in relations_in(start.input):
        if relation.WhichOneof("rel_type") == "read" and relation.read.is_streaming:
            source = relation.read.data_source
            source.options.update(topics if source.format == "kafka" else files if source.paths else {})
    return bytes(started.SerializeToString())
