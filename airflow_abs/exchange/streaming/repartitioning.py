"""A repartitioning of a stream's state, from when it is decided until the next batch is done: whole, or undone.

    <checkpoint>/_airflow_abs/repartitioning.json

Spark writes it as a batch without rows, N + 1 after the last one that was done: offsets/N+1, the state's version N + 2
in as many folders as there are partitions now, then commits/N+1. All of it is new, nothing that was there is touched.
Last of all the log of the sink gets the batch, too (which Spark leaves out): then it is whole. Before that, or as long
as no batch after it is done, it is undone by deleting what is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.records.reading import Count, Positive, as_record
from airflow_abs.exchange.storage.client_errors import raise_unlisted, storage_errors
from airflow_abs.exchange.storage.deletion import delete_files
from airflow_abs.exchange.storage.foreign_logs import SINK_LOG
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json
from airflow_abs.exchange.streaming.layout_files import sink_has_batch
from airflow_abs.exchange.streaming.spark_checkpoint import SPARK_FOLDER

_PLACE = "_airflow_abs/repartitioning.json"
_NUMBER = re.compile(r"\.?(\d+)([._]|$)")
"""With what files of a batch or of a version begin; those with a dot before are checksums."""


@dataclass(frozen=True, slots=True)
class Repartitioning:
    """Args:
    batch: N + 1, that it is in Spark's logs.
    before, after: partitions of the state.
    by: token of the process that began it, see `Holder`.
    """

    batch: Positive
    before: Positive
    after: Positive
    by: str


def begin_repartitioning(checkpoint: ExchangePath, begun: Repartitioning) -> None:
    """Say that it begins; for who holds the checkpoint.

    Raises:
        ExchangeUnreachableError: the folder cannot be written.
    """
    write_json(checkpoint / _PLACE, asdict(begun))


def read_repartitioning(checkpoint: ExchangePath) -> Repartitioning | None:
    """The last one without a later batch, or without one at the last look.

    Raises:
        ExchangeError: it is damaged, of another version, or cannot be read.
    """
    path = checkpoint / _PLACE
    try:
        return as_record(read_json(path), Repartitioning, where=str(locate(path)))
    except MissingFileError:
        return None


def is_whole(begun: Repartitioning, sink: ExchangePath) -> bool:
    """Whether the next batch may follow on it.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    return sink_has_batch(sink, begun.batch)


def undo_repartitioning(checkpoint: ExchangePath, sink: ExchangePath, begun: Repartitioning) -> None:
    """Let everything be as it was before. One that ended midway is done again.

    Only where no later batch is in the sink's log, and while no stream writes to the checkpoint.

    Raises:
        ExchangeUnreachableError: the storage refuses.
    """
    spark = locate(checkpoint / SPARK_FOLDER)
    log = locate(sink) / SINK_LOG
    for place in (spark, log):
        place.forget_listings()
    for folder, numbers in (
        (log, begun.batch),
        (spark / "commits", begun.batch),
        (spark / "state", begun.batch + 1),
        (spark / "offsets", begun.batch),
    ):
        try:
            delete_files(folder, list(_from(folder, numbers)))
        except storage_errors() as error:
            raise_unlisted(folder, error)
    forget_repartitioning(checkpoint)


def forget_repartitioning(checkpoint: ExchangePath) -> None:
    """It is undone, or a batch after it is done.

    Raises:
        ExchangeUnreachableError: the folder cannot be written.
    """
    place = locate(checkpoint / _PLACE)
    try:
        delete_files(place.parent, [place.path])
    except storage_errors() as error:
        raise_unlisted(place.parent, error)


def _from(folder: Location, least: Count) -> Iterator[str]:
    """Files of that number and of later ones, at any depth; the state's own tables are named otherwise, and shared."""
    for path in map(str, folder.fs.find(folder.path)):
        found = _NUMBER.match(folder.at(path).name)
        if found and "/SSTs/" not in path and "/_metadata/" not in path and int(found[1]) >= least:
            yield path
