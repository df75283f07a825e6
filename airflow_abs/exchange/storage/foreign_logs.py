"""Folders in which only files named by a log count: a plain listing gives deleted or repeated rows."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.storage.locations import Location

SINK_LOG = "_spark_metadata"
"""Folder of the log that Spark keeps in a sink of files of a streaming query."""


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """A log by its folder, what has it, and what an author writes instead to publish there or to read it."""

    folder: str
    owner: str
    write: str
    read: str = ""


_TABLES = (
    ForeignLog("_delta_log", "a Delta table", "write it as DeltaTable(...)", "read it as DeltaTable(...)"),
    ForeignLog(".hoodie", "a Hudi table", "give the job another folder", "read a copy of it that another engine makes"),
)
_ICEBERG = ForeignLog("metadata", "an Iceberg table", "write it as IcebergTable(...)", "read it as IcebergTable(...)")
_ICEBERG_DATA = "data"
"""Folder of its files, beside that of the log."""
_STREAM = ForeignLog(SINK_LOG, "the sink of a stream", "give the job a folder of its own")


def find_log(folder: Location, names: set[str]) -> ForeignLog | None:
    """The log that counts in a folder; a request only if it may be Iceberg's.

    A table's before a stream's: a sink that was made a table keeps both.

    Args:
        names: of what is in it, see `names_in`.

    Raises:
        OSError, or what the storage's client raises: it cannot be listed; not if it is not there.
    """
    if (found := next((log for log in _TABLES if log.folder in names), None)) is not None:
        return found
    table = folder.parent if folder.name == _ICEBERG_DATA else folder if _ICEBERG.folder in names else None
    if table is not None and any(name.endswith(".metadata.json") for name in names_in(table / _ICEBERG.folder)):
        return _ICEBERG
    return _STREAM if SINK_LOG in names else None


def refuse_table(source: str, folder: Location, names: set[str]) -> None:
    """Refuse to read a table as files.

    Args:
        source: what reads it, as messages begin.
        names: see `find_log`.

    Raises:
        ExchangeError: it is a table's folder; OSError and others as `find_log`.
    """
    log = find_log(folder, names)
    if log is not None and log is not _STREAM:
        raise ExchangeError(
            f"{source}: is {log.owner}, whose log says which of its files count; {log.read}, or read all files with "
            f"a glob, such as Files('{folder}/*.parquet')"
        )


def names_in(folder: Location) -> set[str]:
    """Names of the files and folders directly in a folder; none if it does not exist."""
    try:
        return {name.rstrip("/").rpartition("/")[2] for name in folder.fs.ls(folder.path, detail=False)}
    except (FileNotFoundError, NotADirectoryError):
        return set()
