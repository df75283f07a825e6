"""A table as `plan` found it: what every subtask, retry and recomputation of the run reads, whatever others commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.reading import refuse
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.locations import locate
from airflow_abs.exchange.storage.whole_files import read_json, write_json


@dataclass(frozen=True, slots=True)
class Constant:
    """A column of a table that has one value in all rows of a file, and is in none; files are listed with its text.

    Args:
        name: in the table.
        column: of the text, while Spark reads.
        expression: SQL of the value.
    """

    name: str
    column: str
    expression: str


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """One version of a table, after pruning. The files are listed in a record of their own.

    Args:
        table: its name, with its catalog's.
        version: what was current, in the format's words, such as ``snapshot 7041``; empty for a table without versions.
        format: of its files, as Spark names it.
        file_schema: Spark's JSON of the columns as Spark looks them up in the files: the source's own less the
            constants, in order, but under other names where those of the files cannot be trusted.
        condition: SQL that every row must also meet; None for all rows of the files.
        settings: for every session that reads it.
        files, bytes: what is read; `all_files`, `all_bytes`: what that version holds.
        constants: columns that are in no file, in the order of their texts in `SourceFile`.
        details: what else its format needs to know about the version, as JSON values.
        rewritable: whether its files may be replaced under their names. Each is then listed with one more text after
            those of the constants: when it was last changed, in milliseconds since 1970; subtasks compare it.
        uuid: of the table, as in `TargetTable`; empty where its kind has none.
        declared: the declaration with rendered templates, from which workers recreate the table, see
            `airflow_abs.tables.kinds`; set by the caller of `pin`.
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
    constants: tuple[Constant, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    declared: Mapping[str, Any] = field(default_factory=dict)
    rewritable: bool = False
    uuid: str = ""

    @property
    def label(self) -> str:
        """``lake.db.orders at snapshot 7041``."""
        return f"{self.table} at {self.version}" if self.version else f"{self.table} (empty)"


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """Its files, in order, and by column that it is pruned by what is known of that in each of them."""

    files: list[SourceFile]
    spans: Mapping[str, list[Span | None]]


@dataclass(frozen=True, slots=True)
class _Record:
    files: list[tuple[str, int]]
    constants: list[tuple[str | None, ...]] = field(default_factory=list)
    versions: list[str] = field(default_factory=list)
    spans: dict[str, list[Span | None]] = field(default_factory=dict)


def write_pinned_files(
    folder: JobFolder,
    region: str,
    vertex: str,
    files: Sequence[SourceFile],
    spans: Mapping[str, Sequence[Span | None]] | None = None,
) -> None:
    """Store what `plan` listed of the table that a vertex reads; a repetition replaces it.

    Args:
        spans: by column that it is pruned by, what is known of it in each of the files.
    """
    record: dict[str, Any] = {"files": [[file.path, file.bytes] for file in files]}
    if any(file.constants for file in files):
        record["constants"] = [file.constants for file in files]
    if any(file.version for file in files):
        record["versions"] = [file.version for file in files]
    if spans:
        record["spans"] = {column: list(known) for column, known in spans.items()}
    write_json(folder.pinned_path(region, vertex), record)


def read_pinned(folder: JobFolder, region: str, vertex: str) -> PinnedFiles:
    """Read it back.

    Raises:
        MissingFileError, DamagedFileError: see `read_json`.
    """
    path = folder.pinned_path(region, vertex)
    try:
        found = msgspec.convert(read_json(path), _Record)
    except msgspec.ValidationError as error:
        where = str(locate(path))
        raise DamagedFileError(
            f"{where}: {error}; the record is damaged, or another version of airflow_abs wrote it: clear the task plan",
            path=where,
        ) from error
    for what, texts in (("constants", found.constants), ("versions", found.versions)):
        if texts and len(texts) != len(found.files):
            refuse(str(locate(path)), f"it has {what} of {len(texts)} files, expected {len(found.files)}")
    for column, spans in found.spans.items():
        if len(spans) != len(found.files):
            refuse(str(locate(path)), f"it has spans of {column!r} in {len(spans)} files, expected {len(found.files)}")
    return PinnedFiles(from_columns(found.files, found.constants, found.versions), found.spans)


def from_columns(
    files: Sequence[tuple[str, int]], constants: Sequence[tuple[str | None, ...]], versions: Sequence[str]
) -> list[SourceFile]:
    """Files as records have them: path and bytes, and beside them the texts of their constants, and their versions, if
    there are any."""
    none, unknown = [()] * len(files), [""] * len(files)
    return [
        SourceFile(path, size, version, texts)
        for (path, size), texts, version in zip(files, constants or none, versions or unknown, strict=True)
    ]
