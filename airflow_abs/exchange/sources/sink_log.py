"""Which files count in a folder that a streaming query writes: those named by Spark's log of the sink.

    <folder>/_spark_metadata/7           "v1", then one JSON object for each file that batch 7 added
    <folder>/_spark_metadata/9.compact   every tenth: the files of all batches before it, too

A failed batch leaves files behind, and its repetition writes the same rows under other names. Only the log tells them
apart; Spark itself reads such a folder by it (`MetadataLogFileIndex`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.storage.foreign_logs import SINK_LOG
from airflow_abs.exchange.storage.locations import Location

_COMPACT = ".compact"
_VERSION = b"v1"


def read_sink_log(folder: Location) -> frozenset[str]:
    """The files with rows, relative to a folder that has such a log.

    Raises:
        DamagedFileError: the log is not as Spark writes it; a batch is missing; it names files of another folder.
    """
    log = folder / SINK_LOG
    plain, compact = _list_batches(log)
    first, last = max(compact, default=-1), max(plain | compact, default=-1)
    wanted = range(first + 1, last + 1)
    missing = [number for number in wanted if number not in plain]
    if missing:
        raise _damaged(log, f"batch {missing[0]} of {last} is missing")
    entries = [*([f"{first}{_COMPACT}"] if first >= 0 else []), *map(str, wanted)]
    return frozenset(_below(folder, uri) for name in entries for uri in _files(log / name))


def last_batch_of(folder: Location) -> int | None:
    """The last batch in the log of a sink; None if no stream has ever written it. Storage errors are the caller's."""
    try:
        plain, compact = _list_batches(folder / SINK_LOG)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return max(plain | compact, default=None)


def _list_batches(log: Location) -> tuple[set[int], set[int]]:
    """Numbers of the entries that hold one batch, and of those that hold all before them, too."""
    names = [name.rpartition("/")[2] for name in log.fs.ls(log.path, detail=False)]
    compact = {name.removesuffix(_COMPACT) for name in names if name.endswith(_COMPACT)}
    return {int(name) for name in names if name.isdecimal()}, {int(name) for name in compact if name.isdecimal()}


def _files(entry: Location) -> Iterator[str]:
    version, _, lines = entry.read_whole().partition(b"\n")
    if version.strip() != _VERSION:
        raise _damaged(entry, f"it begins with {version[:20]!r}, expected {_VERSION!r}")
    for line in lines.splitlines():
        try:
            file = json.loads(line)
            path, size, is_folder = str(file["path"]), int(file["size"]), bool(file["isDir"])
        except (ValueError, LookupError, TypeError) as error:
            raise _damaged(entry, f"a line of it is not JSON of a file: {line[:80]!r}") from error
        if size and not is_folder:
            yield path


def _below(folder: Location, uri: str) -> str:
    """A file of the log, whose names are escaped as in every URI, below the folder."""
    parts = urlsplit(uri)
    path, base = unquote(parts.path).lstrip("/"), folder.path.strip("/") + "/"
    for whole in (path, f"{parts.netloc}/{path}"):  # a bucket is a part of the path for some file systems
        if whole.startswith(base):
            return whole.removeprefix(base)
    raise _damaged(folder / SINK_LOG, f"it names {uri}, which is not below {folder}: the folder was moved or copied")


def _damaged(place: Location, what: str) -> DamagedFileError:
    return DamagedFileError(
        f"{place}: {what}. Only Spark's log of a stream's sink tells which files count; restore it, or read all "
        "files with a glob, such as Files('/out/*.parquet')",
        path=str(place),
    )
