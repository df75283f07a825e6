"""A table as `plan` found it: what every subtask, retry and recomputation of the run reads, whatever others commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """One version of a table, after pruning. The files are listed in a record of their own.

    Args:
        table: its name, with that of its catalog.
        version: what was current, in the words of its format, such as ``snapshot 7041``; empty for one without any.
        format: of its files, as Spark names it.
        file_schema: Spark's JSON of the columns as Spark looks them up in the files: the source's own, in order, but
            under other names where those of the files cannot be trusted.
        condition: SQL that every row must meet besides; None for all rows of the files.
        settings: of every session that reads it.
        files, bytes: what is read; `all_files`, `all_bytes`: what that version holds.
    """

    table: str
    version: str
    format: str
    file_schema: str
    files: int
    bytes: int
    all_files: int
    all_bytes: int
    condition: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """``lake.db.orders at snapshot 7041``."""
        return f"{self.table} at {self.version}" if self.version else f"{self.table} (empty)"


def write_pinned_files(folder: JobFolder, region: str, vertex: str, files: Sequence[SourceFile]) -> None:
    """Store what `plan` listed of the table that a vertex reads; a repetition replaces it."""
    write_json(folder.pinned_path(region, vertex), {"files": [[file.path, file.bytes] for file in files]})


def read_pinned_files(folder: JobFolder, region: str, vertex: str) -> list[SourceFile]:
    """Read it back, in order.

    Raises:
        MissingFileError, DamagedFileError: see `read_json`.
    """
    path = folder.pinned_path(region, vertex)
    try:
        found = msgspec.convert(read_json(path).get("files"), list[tuple[str, int]])
    except msgspec.ValidationError as error:
        where = str(locate(path))
        raise DamagedFileError(
            f"{where}: {error}; the record is damaged, or another version of airflow_abs wrote it: clear the task plan",
            path=where,
        ) from error
    return [SourceFile(file, size) for file, size in found]
