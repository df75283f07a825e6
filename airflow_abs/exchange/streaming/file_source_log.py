"""Which files a batch of a stream read, by the log that Spark's file source keeps in the checkpoint.

    <checkpoint>/spark/sources/0/7           v1, then one JSON object for each file: path, timestamp (ms), batchId
    <checkpoint>/spark/sources/0/9.compact   every tenth: the files of all that came before it, too

A file of that log may be large; no more than its head, or the tail of a compacted one, is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from airflow_abs.exchange.storage.client_errors import storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate

_READ_BYTES = 64 * 1024
_MOST_ENTRIES = 20
"""Of the log in one batch: a query that was away for long may have many, and the oldest come first."""


def oldest_file(spark_checkpoint: ExchangePath, source: int, first: int, last: int) -> float | None:
    """When the oldest file was written (epoch seconds) of those that the entries `first` to `last` name; None if the
    log does not say.

    Args:
        spark_checkpoint: the folder that Spark has.
        source: its number in the query.
        first, last: numbers in its log.
    """
    folder = locate(spark_checkpoint / f"sources/{source}")
    try:
        times = [
            time
            for number in range(first, min(last, first + _MOST_ENTRIES - 1) + 1)
            for time in _times_of(folder, number)
        ]
    except storage_errors():
        return None
    except (ValueError, KeyError, TypeError):  # not as it is known to be
        return None
    return min(times, default=None)


def _times_of(folder: Location, number: int) -> list[float]:
    try:
        return list(_parse(_head(folder / str(number)), number))
    except FileNotFoundError:
        pass
    lines = _tail(folder / f"{number}.compact")
    times = list(_parse(lines, number))
    # if all that was read is of this entry, it began before that, and so did perhaps its oldest file
    return times if len(times) < len(lines) else []


def _parse(lines: list[bytes], number: int) -> Iterator[float]:
    for line in lines:
        if line.startswith(b"{"):
            entry = json.loads(line)
            if entry["batchId"] == number:
                yield float(entry["timestamp"]) / 1000


def _head(place: Location) -> list[bytes]:
    content = bytes(place.fs.cat_file(place.path, start=0, end=_READ_BYTES))
    lines = content.split(b"\n")
    return lines if len(content) < _READ_BYTES else lines[:-1]


def _tail(place: Location) -> list[bytes]:
    content = bytes(place.fs.cat_file(place.path, start=-_READ_BYTES))
    lines = content.split(b"\n")
    return lines if len(content) < _READ_BYTES else lines[1:]
