"""Lists a folder to which runs publish as of one state: never half an output, never two outputs.

No lock is taken. On an object store the target's log says which files do not count yet and which no longer count; on a
local file system a publication swaps the whole folder. If the state changes while the files are listed, they are listed
again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.publish.commit_log import CommitLog, LogRecord
from airflow_abs.exchange.publish.record import LOG_NAME, RECORD_NAME
from airflow_abs.exchange.storage.locations import Location

_TRIES = 10


class ListedFile(Protocol):
    """Its size in bytes, and a tag that changes with its content."""

    @property
    def bytes(self) -> int: ...

    @property
    def version(self) -> str: ...


File = TypeVar("File", bound=ListedFile)
Listing = tuple[set[str], Mapping[str, File]]
"""The names directly in a folder, and its files by relative path."""


def list_published(folder: Location, list_files: Callable[[], Listing[File]]) -> tuple[set[str], dict[str, File]]:
    """What `list_files` finds, less the files that are not published.

    Args:
        list_files: called again if something was published meanwhile.

    Raises:
        ExchangeUnreachableError: something was, time after time.
        DamagedFileError, IncompatibleFileError: the log cannot be trusted. Storage errors are left to the caller.
    """
    if folder.is_local:
        _, (names, found) = _settled(folder, lambda: _publication_in(folder), list_files)
        return names, dict(found)
    names, found = list_files()
    if LOG_NAME not in names:
        return names, dict(found)
    record, (names, found) = _settled(folder, CommitLog(folder).read, list_files)
    return names, _counting(record, found)


def _settled(
    folder: Location, read_state: Callable[[], Any], list_files: Callable[[], Listing[File]]
) -> tuple[Any, Listing[File]]:
    state = read_state()
    for _ in range(_TRIES):
        folder.forget_listings()
        found = list_files()
        before, state = state, read_state()
        if before == state:
            return state, found
    raise ExchangeUnreachableError(
        f"source {folder}: was published to {_TRIES} times while it was listed; expected a moment in between. Let the "
        "job that writes it end first"
    )


def _publication_in(folder: Location) -> tuple[int, int] | None:
    """Identifies what was last published to a local folder, by its record. Files that others add do not change it, and
    the folder's own inode would not do: a new folder may get the number of a deleted one."""
    try:
        record = (folder / RECORD_NAME).local.stat()
    except FileNotFoundError:
        return None
    return record.st_ino, record.st_mtime_ns


def _counting(record: LogRecord, found: Mapping[str, File]) -> dict[str, File]:
    put = frozenset(record.claim.puts if record.claim is not None else ())
    gone = {each.name: each.version for each in record.garbage}
    return {
        name: file
        for name, file in found.items()
        if name not in put and gone.get(name) not in ("", f"{file.bytes} {file.version}")
    }
