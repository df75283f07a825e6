"""Whether a stream, as it is declared now, can resume from its checkpoint: asked before anything is stopped for it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_abs.core.streaming.query_layout import find_misfits
from airflow_abs.exchange.errors import CheckpointMisfitError
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.streaming.layout_files import find_foreign, last_sink_batch, read_layout, sink_has_batch
from airflow_abs.exchange.streaming.repartitioning import read_repartitioning
from airflow_abs.exchange.streaming.spark_checkpoint import SPARK_FOLDER, read_spark_checkpoint
from airflow_abs.exchange.streaming.stored_query import read_stored_queries
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.stream.trial import try_without_rows
from airflow_abs.spark.template import messages_of, relations_in


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stream that was compiled and should resume.

    Args:
        who: as messages begin.
        plan: the command that starts it, see `compile_stream`.
        conf: settings of its Spark session.
        checkpoint: the stream's folder.
        sink: the folder to which it adds files; None for a topic, which has no log of batches.
    """

    who: str
    plan: bytes = field(repr=False)
    conf: Mapping[str, str]
    checkpoint: ExchangePath
    sink: ExchangePath | None


async def check_fit(connection: Connection, candidate: Candidate) -> None:
    """What was not changed fits. Before the checkpoint's first batch is done, only the sink can be wrong: written with
    another checkpoint, or by no stream at all.

    Raises:
        CheckpointMisfitError: it cannot resume; the message says what does not fit.
        SparkOperationError: Spark does not start it at all, or does not answer.
        ExchangeUnreachableError: the checkpoint or the sink's log cannot be read.
    """
    spark = candidate.checkpoint / SPARK_FOLDER
    # The sink first: a batch begins in the checkpoint, and a query that runs now may begin more in between.
    sink = candidate.sink
    written = None if sink is None else await asyncio.to_thread(last_sink_batch, sink)
    found = await asyncio.to_thread(read_spark_checkpoint, spark)
    if sink is not None:
        _check_ahead(candidate, sink, written, found.begun)
        if written is None and found.begun is None:
            await asyncio.to_thread(_check_unused, candidate.who, sink)
    done = found.done
    if done is None:
        return
    before = [_start_of(plan) for plan in await asyncio.to_thread(read_stored_queries, candidate.checkpoint)]
    _check_destination(candidate, before)
    if sink is not None:
        await asyncio.to_thread(_check_sink, candidate, sink, before, done)
    _check_sources(candidate, before)
    if _start_of(candidate.plan) in before:
        return
    kept = await asyncio.to_thread(read_layout, spark, done)
    if kept is None:
        return
    scratch = candidate.checkpoint / f"_airflow_abs/trial-{uuid.uuid4().hex}"
    conf = {**candidate.conf, **kept.settings}
    wanted = await try_without_rows(connection, candidate.plan, conf, scratch)
    misfits = () if wanted is None else find_misfits(kept, wanted)
    if misfits:
        raise _misfit(
            candidate,
            "; ".join(misfits),
            "Undo the change; or give it another checkpoint and another sink, to start over with everything in its "
            "source",
        )


def _check_ahead(candidate: Candidate, sink: ExchangePath, written: int | None, begun: int | None) -> None:
    """Spark skips every batch whose number is in the sink's log, whatever its rows are."""
    if written is not None and written > (-1 if begun is None else begun):
        own = "has begun none" if begun is None else f"has begun {begun} as its last"
        raise _misfit(
            candidate,
            f"its sink {locate(sink)} has batch {written} in its log, and this checkpoint {own}: Spark would "
            "take the next batches for written, and their rows would be missing",
            "Give it another sink, too; or the checkpoint that the sink was written with",
        )


def _check_unused(who: str, sink: ExchangePath) -> None:
    """Once a folder has the log, Spark shows only the files that the log names."""
    found = find_foreign(sink)
    if found is not None:
        raise CheckpointMisfitError(
            f"{who}: its sink {locate(sink)} holds {found}, which no stream has written: with the "
            "first batch Spark's log of the sink would hide it from every reader that respects the log. Give the "
            "stream a folder of its own"
        )


def _check_destination(candidate: Candidate, before: list[Any]) -> None:
    """Only the rows of batches to come would be in the new topic, or in the folder that takes a topic's place."""
    now = _destination(_start_of(candidate.plan))
    for was in {_destination(start) for start in before} - {now}:
        raise _misfit(
            candidate,
            f"it writes to {now} now, and has written to {was}: the rows of the batches before would be missing there",
            "Undo the change; or give it another checkpoint, too, to start over with everything in its source",
        )


def _destination(start: Any) -> str:
    """Another folder is found out by its log."""
    return f"the topic {start.options['topic']}" if start.format == "kafka" else "a folder"


def _check_sink(candidate: Candidate, folder: ExchangePath, before: list[Any], done: int) -> None:
    sink = locate(folder)
    begun = read_repartitioning(candidate.checkpoint)
    is_midway = begun is not None and begun.batch == done  # it is undone before the query starts
    if not is_midway and not sink_has_batch(folder, done):
        raise _misfit(
            candidate,
            f"its sink {sink} has no batch {done} in its log, which the checkpoint completed: rows that were written "
            "before would be missing there, and Spark cannot read a log that begins in the middle",
            "Give it its former sink; or another checkpoint, too",
        )
    now = _start_of(candidate.plan)
    for start in before:
        if start.path == now.path and _shape(start) != _shape(now):
            raise _misfit(
                candidate,
                f"its sink is written as {_shape(now)} now, and was written as {_shape(start)}: one folder cannot be "
                "read as both",
                "Undo the change; or give it another sink and another checkpoint",
            )


def _check_sources(candidate: Candidate, before: list[Any]) -> None:
    """Spark looks for the files of its last batch below the folder that the query has now, and takes the partitions of
    another topic for new ones, which it reads from the first record on."""
    now = _places(_start_of(candidate.plan))
    for start in before:
        was = _places(start)
        if len(was) == len(now) and was != now:
            raise _misfit(
                candidate,
                f"it reads {', '.join(now)} now, and has read {', '.join(was)}: Spark resumes in the same folders and "
                "topics only",
                "Undo the change, and put new data into the former place; or give it another checkpoint and another "
                "sink",
            )


def _misfit(candidate: Candidate, what: str, remedy: str) -> CheckpointMisfitError:
    where = str(locate(candidate.checkpoint))
    return CheckpointMisfitError(
        f"{candidate.who}: as it is declared now it cannot resume from its checkpoint {where}: {what}. {remedy}"
    )


def _start_of(plan: bytes) -> Any:
    """What starts the query, but for what is another one each time, or may be."""
    start = protos().Plan.FromString(plan).command.write_stream_operation_start
    for name in ("query_name", "processing_time_interval", "available_now"):
        start.ClearField(name)
    numbers: dict[int, int] = {}
    for message in messages_of(start):
        if "plan_id" in message.DESCRIPTOR.fields_by_name and message.HasField("plan_id"):
            message.plan_id = numbers.setdefault(message.plan_id, len(numbers))  # counted by each process
    return start


def _places(start: Any) -> list[str]:
    """Folders that it reads as a stream, and the topics of each source of Kafka."""
    reads = [each.read for each in relations_in(start.input) if each.WhichOneof("rel_type") == "read"]
    return sorted(place for read in reads if read.is_streaming for place in _places_of(read.data_source))


def _places_of(source: Any) -> list[str]:
    if source.format != "kafka":
        return list(source.paths)
    topics = next((value for name, value in source.options.items() if name.lower() == "subscribe"), "")
    return [f"Kafka's {', '.join(sorted(each.strip() for each in topics.split(',')))}"]


def _shape(start: Any) -> str:
    columns = list(start.partitioning_column_names)
    return f"{start.format}, partitioned by {', '.join(columns)}" if columns else start.format
