"""What the state of a query would look like: it is run once over no rows, by itself, and its own checkpoint is read.

Spark alone knows which stateful operators a plan gets and how their state is laid out, and it says so in the checkpoint
before the first batch. Sources give one empty file instead, tables beside the stream no rows, and nothing is written.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Mapping

from airflow_abs.core.streaming.query_layout import QueryLayout
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.storage.client_errors import reason_of, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.exchange.streaming.layout_files import read_layout
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.operations import release_session, set_config
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.relations import Relation
from airflow_abs.spark.stream.query import SESSION_SETTINGS, Activity, read_activity, read_failure, start_query
from airflow_abs.spark.template import relations_in

log = logging.getLogger(__name__)

TRIAL_SECONDS = 60.0
_POLL_SECONDS = 0.1
_SCHEMAS = {
    "rate": "timestamp TIMESTAMP, value BIGINT",
    "kafka": "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT",
}
"""Of sources that have one of their own."""
_HEADERS = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
"""The additional column of Kafka's with the option `includeHeaders`."""
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_ONE_PARTITION = {"spark.sql.shuffle.partitions": "1"}
_KEEP_OPERATORS = "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation"
"""It would drop a join with a table that gives no rows, and all the state above it."""


async def try_without_rows(
    connection: Connection, plan: bytes, conf: Mapping[str, str], scratch: ExchangePath
) -> QueryLayout | None:
    """How the state of a compiled query is laid out; None, with a line in the log, if it does not show.

    Args:
        plan: the command that starts it; it is not started as it is.
        conf: settings of its session.
        scratch: a folder that Spark reaches; deleted at the end.

    Raises:
        SparkOperationError: Spark refuses to start it, or does not answer.
        ExchangeUnreachableError: the folder cannot be written.
    """
    session_id = str(uuid.uuid4())
    rules = ",".join(filter(None, [conf.get(_EXCLUDED, ""), _KEEP_OPERATORS]))
    settings = {**SESSION_SETTINGS, **conf, **_ONE_PARTITION, _EXCLUDED: rules}
    await asyncio.to_thread(write_atomic, scratch / "in/nothing.json", b"")
    try:
        await set_config(connection, session_id, settings)
        failed = await _run(connection, session_id, without_rows(plan, scratch))
        layout = await asyncio.to_thread(read_layout, scratch / "checkpoint", 0)
    finally:
        await release_session(connection, session_id)
        await asyncio.to_thread(_delete, scratch)
    if failed is not None or layout is None:
        reason = failed or "its description has a format that is not known"
        log.warning("whether the state fits is left to Spark; a trial over no rows did not show it: %s", reason)
        return None
    return layout


async def _run(connection: Connection, session_id: str, plan: bytes) -> str | None:
    """Why it failed; None if it did not."""
    query = await start_query(connection, session_id, plan)
    try:
        async with asyncio.timeout(TRIAL_SECONDS):
            while await read_activity(connection, query) is not Activity.ENDED:
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        return f"it was still running after {TRIAL_SECONDS:g} s; does Spark have a free slot?"
    failure = await read_failure(connection, query)
    return None if failure is None else failure.message


def without_rows(plan: bytes, scratch: ExchangePath) -> bytes:
    """The command for the trial: sources give nothing, and nothing is written but a checkpoint below `scratch`."""
    trial = protos().Plan.FromString(plan)
    start = trial.command.write_stream_operation_start
    reads = [each for each in relations_in(start.input) if each.WhichOneof("rel_type") == "read"]
    for relation in reads:
        if relation.read.is_streaming:
            _read_nothing(relation, uri_for_spark(scratch / "in"))
        else:
            rows = protos().Relation()
            rows.CopyFrom(relation)
            relation.CopyFrom(protos().Relation(limit=protos().Limit(input=rows, limit=0)))
    start.format, start.query_name, start.available_now = "noop", "", True
    start.ClearField("path")
    start.ClearField("partitioning_column_names")
    start.options.clear()
    start.options["checkpointLocation"] = uri_for_spark(scratch / "checkpoint")
    return bytes(trial.SerializeToString())


def _read_nothing(relation: Relation, folder: str) -> None:
    """An empty file has no rows in any schema that JSON can have."""
    source = relation.read.data_source
    schema = source.schema or _SCHEMAS[source.format] + (_HEADERS if _has_headers(source.options) else "")
    source.Clear()
    source.format, source.schema = "json", schema
    source.paths.append(folder)


def _has_headers(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "includeheaders" and value.lower() == "true" for name, value in options.items())


def _delete(scratch: ExchangePath) -> None:
    place = locate(scratch)
    try:
        place.fs.rm(place.path, recursive=True)
    except storage_errors() as error:
        log.warning("%s: a trial's files cannot be deleted (%s)", place, reason_of(error))
