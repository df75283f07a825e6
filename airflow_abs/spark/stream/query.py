"""A streaming query of Spark's by its session: start it, find it, ask how it is, stop it.

A query belongs to its session, and keeps running when no client listens: Spark keeps a session in which one runs.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from airflow_abs.core.streaming.failures import QueryFailure
from airflow_abs.spark.connect.classification import classify
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import (
    EVERY_SESSION,
    Operation,
    release_operation,
    release_session,
)
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.errors import Cause, TransientSparkError

SESSION_SETTINGS = {"spark.sql.streaming.numRecentProgressUpdates": "20", **EVERY_SESSION}
"""Of a query's session. It keeps so many batches between two looks at it; Spark's own 100 are some 200 KB a look."""

ROWS_OUT = "airflow_abs_rows_out"
"""Of the observed metric that counts the rows which go to the sink: not every sink of Spark's says how many it got."""

_CLASSES = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")
_OFFSETS = re.compile(r"Current Available Offsets: (\{.*\})$", re.MULTILINE)
_REST = re.compile(r"\n+=== Streaming Query ===.*", re.DOTALL)
_JAVA_CLASS = re.compile(r"\b((?:java|org\.apache)\.[\w.$]+(?:Exception|Error))\b")
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(?:\w*Timeout|Disconnect|Network|\w*NotAvailable|NotLeader\w*|NotCoordinator|CoordinatorLoadInProgress)Exception"
    r"|No resolvable bootstrap urls|Cannot fetch record for offset"
    r"|java\.net\.(?:\w*Connect|UnknownHost|NoRouteToHost|SocketTimeout|Socket)Exception"
    r"|AWS(?:ApiCallTimeout|ClientIO|NoResponse|ServiceThrottled|Status500)Exception"
)
"""A broker, a store or the network between did not answer; see `QueryFailure.is_away`."""
_CAUSED_BY = re.compile(r"^Caused by: (.*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunningQuery:
    """One start of a query. `query_id` is the checkpoint's, the same forever, `run_id` that of this start."""

    session_id: str
    query_id: str
    run_id: str


class Activity(StrEnum):
    """What a query does: a batch (or a look for one), nothing, or it does not run any more."""

    BATCH = "batch"
    IDLE = "idle"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class FilesRead:
    """Which entries of the log of its files a batch read of a source, by the source's number; see `oldest_file`."""

    source: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """A batch that was done: rows of its sources and those that came of them, and what its state holds since.

    `ended` is in epoch seconds, on the clock of the Spark server. `rows_behind` are records that Kafka has beyond those
    of the batch, by the offsets that Spark last saw; None for sources without offsets of records.
    """

    batch: int
    rows: int
    seconds: float
    state_rows: int
    state_bytes: int
    ended: float = 0.0
    rows_out: int | None = None
    files: tuple[FilesRead, ...] = ()
    rows_behind: int | None = None

    @property
    def wait_of_next(self) -> float | None:
        """Seconds until a record that arrives now is read, at this batch's pace; None if the backlog is unknown."""
        if self.rows_behind is None or (self.rows_behind and not self.rows):
            return None
        return self.seconds * (1 + self.rows_behind / max(self.rows, 1))

    @staticmethod
    def from_spark(text: str) -> StreamProgress | None:
        """Of the JSON that Spark gives; None if it tells of a look that found nothing to do, which has the number of
        the batch to come."""
        found = json.loads(text)
        if "addBatch" not in found.get("durationMs", {}):
            return None
        operators = found.get("stateOperators", ())
        sources = found.get("sources", ())
        seconds = float(found.get("batchDuration", 0)) / 1000
        return StreamProgress(
            batch=int(found["batchId"]),
            rows=sum(int(source.get("numInputRows") or 0) for source in sources),
            seconds=seconds,
            state_rows=sum(int(operator.get("numRowsTotal") or 0) for operator in operators),
            state_bytes=sum(int(operator.get("memoryUsedBytes") or 0) for operator in operators),
            ended=datetime.fromisoformat(found["timestamp"]).timestamp() + seconds,
            rows_out=_rows_out(found.get("observedMetrics", {}).get(ROWS_OUT)),
            files=tuple(read for number, source in enumerate(sources) if (read := _files_read(number, source))),
            rows_behind=_rows_behind(sources),
        )


def _rows_out(observed: object) -> int | None:
    match observed:
        case {"values": [int(rows)]}:
            return rows
    return None


def _rows_behind(sources: Iterable[Mapping[str, Any]]) -> int | None:
    known = [left for source in sources if (left := _left_in(source)) is not None]
    return sum(known) if known else None


def _left_in(source: Mapping[str, Any]) -> int | None:
    end, latest = (_offsets_of_records(source.get(name)) for name in ("endOffset", "latestOffset"))
    if end is None or latest is None:
        return None
    return sum(max(0, offset - end.get(partition, 0)) for partition, offset in latest.items())


def _offsets_of_records(offset: object) -> dict[tuple[str, str], int] | None:
    """By topic and partition; other sources have other offsets."""
    try:
        found = json.loads(offset) if isinstance(offset, str) else offset
        if isinstance(found, dict) and found and all(isinstance(each, dict) for each in found.values()):
            return {(topic, part): int(at) for topic, parts in found.items() for part, at in parts.items()}
    except (TypeError, ValueError):
        pass
    return None


def _files_read(number: int, source: Mapping[str, Any]) -> FilesRead | None:
    start, end = (_log_offset(source.get(name)) for name in ("startOffset", "endOffset"))
    first = 0 if start is None else start + 1
    return None if end is None or end < first else FilesRead(number, first, end)


def _log_offset(offset: object) -> int | None:
    """Of a source of files, whose offsets are objects as text; other sources have other offsets."""
    try:
        match json.loads(offset) if isinstance(offset, str) else offset:
            case {"logOffset": int(number)}:
                return number
    except ValueError:
        pass
    return None


async def start_query(
    connection: Connection, session_id: str, plan: bytes, *, server_session: str = ""
) -> RunningQuery:
    """Start it.

    Args:
        session_id: in which no query of that name runs.
        plan: a serialised `spark.connect.Plan` with the command that starts it.
        server_session: what `set_config` returned, if the query needs these settings.

    Raises:
        SparkOperationError: it cannot be started.
    """
    started = (await _execute(connection, session_id, plan, server_session)).write_stream_operation_start_result
    return RunningQuery(session_id, started.query_id.id, started.query_id.run_id)


async def find_query(connection: Connection, session_id: str, name: str) -> RunningQuery | None:
    """The query of that name that runs in the session; None if there is none, or no such session.

    Raises:
        SparkOperationError: the server's own, or it does not answer.
    """
    return (await _active_queries(connection, session_id)).get(name)


async def end_session(connection: Connection, session_id: str) -> None:
    """End a session once all queries in it have stopped, for which ending it alone does not wait.

    Raises:
        SparkOperationError: the server's own, or it does not answer.
    """
    for query in (await _active_queries(connection, session_id)).values():
        await stop_query(connection, query)
    await release_session(connection, session_id)


async def _active_queries(connection: Connection, session_id: str) -> dict[str, RunningQuery]:
    proto = protos()
    command = proto.StreamingQueryManagerCommand(active=True)
    plan = proto.Plan(command=proto.Command(streaming_query_manager_command=command))
    try:
        answer = await _execute(connection, session_id, plan.SerializeToString())
    except TransientSparkError as error:
        if error.error_class.startswith("INVALID_HANDLE."):
            return {}
        raise
    active = answer.streaming_query_manager_command_result.active.active_queries
    return {query.name: RunningQuery(session_id, query.id.id, query.id.run_id) for query in active}


async def read_activity(connection: Connection, query: RunningQuery) -> Activity:
    """What it does now."""
    status = (await _ask(connection, query, status=True)).status
    if not status.is_active:
        return Activity.ENDED
    return Activity.BATCH if status.is_trigger_active else Activity.IDLE


async def read_progress(connection: Connection, query: RunningQuery) -> list[StreamProgress]:
    """Its last batches in order, so many as the session keeps, see `SESSION_SETTINGS`."""
    found = (await _ask(connection, query, recent_progress=True)).recent_progress.recent_progress_json
    return [progress for each in found if (progress := StreamProgress.from_spark(each)) is not None]


async def read_failure(connection: Connection, query: RunningQuery, batch: int | None = None) -> QueryFailure | None:
    """Why it does not run any more; None if it was stopped, or had nothing more to do.

    Args:
        batch: the last one that was done.
    """
    answer = (await _ask(connection, query, exception=True)).exception
    if not answer.HasField("exception_message"):
        return None
    return failure_of(answer.exception_message, None if batch is None else batch + 1, answer.stack_trace)


def failure_of(message: str, batch: int | None = None, trace: str = "") -> QueryFailure:
    """What Spark says of a query that failed, taken apart: whether it may be restarted, and on which offsets it was.

    Args:
        trace: Java's stack trace; only it may name the root cause, such as a source that did not answer.
    """
    said = _REST.sub("", message).strip()
    chain = _CAUSED_BY.findall(trace)
    classes = [name for name in _CLASSES.findall(said) if name != "STREAM_FAILED"]
    causes = [Cause(name, said) for name in (*classes, *_JAVA_CLASS.findall(said))]
    kind = classify(classes[0] if classes else "", said, causes)
    offsets = _OFFSETS.search(message)
    is_away = any(_AWAY.search(each) for each in (said, *chain))
    root = causes[-1].error_class if causes else ""
    if chain and chain[-1].strip() not in said:
        said = f"{said}; caused by {chain[-1].strip()}"
    return QueryFailure(said, kind.restartable or is_away, offsets[1] if offsets else "", batch, root, is_away)


async def stop_query(connection: Connection, query: RunningQuery) -> None:
    """Stop it, and wait until it has; one that has ended stays as it is. A batch under way is done again by its next
    start."""
    await _ask(connection, query, stop=True)


async def _ask(connection: Connection, query: RunningQuery, **what: bool) -> Any:
    proto = protos()
    query_id = proto.StreamingQueryInstanceId(id=query.query_id, run_id=query.run_id)
    command = proto.StreamingQueryCommand(query_id=query_id, **what)
    plan = proto.Plan(command=proto.Command(streaming_query_command=command))
    answer = await _execute(connection, query.session_id, plan.SerializeToString())
    return answer.streaming_query_command_result


async def _execute(connection: Connection, session_id: str, plan: bytes, server_session: str = "") -> Any:
    operation = Operation(session_id, str(uuid.uuid4()), plan, server_session=server_session)
    outcome = await execute_operation(connection, operation)
    await release_operation(connection, operation)
    (answer,) = outcome.answers
    return protos().ExecutePlanResponse.FromString(answer)
