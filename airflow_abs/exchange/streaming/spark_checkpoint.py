"""What Spark's own files in a checkpoint say: its last batches, and into how many partitions its state is cut.

offsets/<batch>    written before a batch: a version, the settings that are fixed for the query, offsets by source
commits/<batch>    written after it
state/             there if the query has state
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from airflow_abs.exchange.storage.client_errors import raise_unread, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate

SPARK_FOLDER = "spark"
"""Of a stream's checkpoint: what Spark itself knows as its checkpoint."""
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """`begun` and `done` are numbers of the last batches, None before the first; `state_partitions` is None without
    state, or if Spark has written it otherwise than we know."""

    begun: int | None
    done: int | None
    state_partitions: int | None


def read_spark_checkpoint(folder: ExchangePath) -> SparkCheckpoint:
    """Of the folder that Spark knows as ``checkpointLocation``; one that is not there yet has no batches.

    Raises:
        ExchangeUnreachableError: the storage does not answer.
    """
    place = locate(folder)
    place.forget_listings()
    try:
        begun, done = _last_batch(place / "offsets"), _last_batch(place / "commits")
        has_state = begun is not None and place.fs.exists((place / "state").path)
        return SparkCheckpoint(begun, done, _partitions(place / f"offsets/{begun}") if has_state else None)
    except storage_errors() as error:
        raise_unread(place, error)


def _last_batch(folder: Location) -> int | None:
    if not folder.fs.exists(folder.path):
        return None
    names = (folder.at(str(path)).name for path in folder.fs.ls(folder.path, detail=False))
    return max((int(name) for name in names if name.isdecimal()), default=None)


def _partitions(place: Location) -> int | None:
    try:
        return int(json.loads(place.read_whole().splitlines()[1])["conf"][_PARTITIONS])
    except (ValueError, LookupError, TypeError):
        return None
