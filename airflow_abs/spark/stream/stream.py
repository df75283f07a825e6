"""What a stream runs, and what of it follows the slots: settings of its session, and how much one batch reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_abs.core.streaming.rescale import Rescale
from airflow_abs.core.streaming.state_partitions import ROCKSDB, STATE_STORE
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.query import SESSION_SETTINGS
from airflow_abs.spark.template import relations_in

PARTITIONS = "spark.sql.shuffle.partitions"
FILES, RECORDS, READ_PARTITIONS = "maxFilesPerTrigger", "maxOffsetsPerTrigger", "minPartitions"


@dataclass(frozen=True, slots=True)
class Stream:
    """What is to run.

    Args:
        name: of the query, and in messages.
        plan: the command that starts it, see `compile_stream`.
        conf: settings of its Spark session.
        poll_seconds: between two looks at it.
        rescale: what of it follows the slots; None: nothing does.
    """

    name: str
    plan: bytes = field(repr=False)
    conf: Mapping[str, str]
    poll_seconds: float = 2.0
    rescale: Rescale | None = None

    def at(self, slots: int) -> tuple[dict[str, str], bytes]:
        """Settings of its session and the command that starts it, for so many slots."""
        conf = {**SESSION_SETTINGS, **self.conf}
        if self.rescale is None:
            return conf, self.plan
        partitions = self.rescale.partitions(slots)
        files = {FILES: self.rescale.files(slots)}
        records = {RECORDS: self.rescale.records(slots), READ_PARTITIONS: partitions}
        plan = _with_options(self.plan, files, records)
        store = {STATE_STORE: ROCKSDB} if self.rescale.repartition_state else {}
        return {**store, **conf, PARTITIONS: str(partitions)}, plan

    def partitions(self, slots: int) -> int | None:
        """Of its shuffles with so many slots; None if they do not follow them."""
        return None if self.rescale is None else self.rescale.partitions(slots)


def _with_options(plan: bytes, files: Mapping[str, int | None], kafka: Mapping[str, int | None]) -> bytes:
    """The command that starts the query, whose folders and topics have these options; None leaves what is said."""
    scaled = protos().Plan.FromString(plan)
    for relation in relations_in(scaled.command.write_stream_operation_start.input):
        if relation.WhichOneof("rel_type") == "read" and relation.read.is_streaming:
            source = relation.read.data_source
            wanted = kafka if source.format == "kafka" else files if source.paths else {}
            source.options.update({name: str(value) for name, value in wanted.items() if value is not None})
    return bytes(scaled.SerializeToString())
