"""`Files`: a folder of data files, as the source or the sink of a vertex."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from airflow_abs.exchange.sources.pruned_by import VertexColumn, check_prune
from airflow_abs.exchange.storage.uris import for_hadoop, with_authority, without_connection

FileFormat = Literal["parquet", "csv", "json", "orc"]
WriteMode = Literal["overwrite", "overwrite_partitions", "append", "error"]
Missing = Literal["error", "empty"]
Rewritten = Literal["error", "skip"]

_TEMPLATED = re.compile(r"\{[{%]")

SOURCE = "source"
"""The reserved input name of a vertex's own source."""

_FORMATS = ("parquet", "csv", "json", "orc")
WRITE_MODES: tuple[WriteMode, ...] = ("overwrite", "overwrite_partitions", "append", "error")
_MISSING = ("error", "empty")
_REWRITTEN = ("error", "skip")


@dataclass(frozen=True, slots=True)
class Files:
    """Data files under one path that Airflow and Spark both reach.

    As a source: a file, a folder or a glob; `schema` (DDL) replaces inference and allows a folder without files.
    As a sink: a folder that is published atomically; `mode` says what happens to existing files.

    Args:
        path: templated, a URI or a local path.
        format: parquet, csv, json or orc.
        mode: overwrite, overwrite_partitions (only those that the run writes, as Spark's dynamic partition overwrite),
            append or error; for sinks.
        schema: the columns as DDL, such as ``"id BIGINT, day DATE"``; for sources.
        options: Spark's reader or writer options.
        missing: what to do if the path does not exist; for sources. ``"empty"`` treats it as a day without data
            (object stores have no empty folders); needs `schema`.
        partition_by: columns that become folders (``day=2026-01-01``) instead of columns of the files; for sinks.
        sort_by: columns by which the rows of each file are sorted; for sinks.
        files: maximum number of files from each subtask (in each partition); for sinks. Left out, one for each
            Spark task.
        incremental: each run reads only files that no published run has read, each file once, also when runs are
            retried, cleared or backfilled; for sources of jobs whose sinks append. A cleared run rereads its files and
            replaces its own output. The position is in the exchange, by DAG, job and vertex.
        rewritten: what to do if the size or tag of a file (its time, where the storage has no tags) changed after it
            was read: ``"error"``, or ``"skip"``, which compares only names; for incremental sources.
        replace_foreign: whether an overwrite may replace files that were not published to this folder, such as other
            tools' files or those of sinks below it; for sinks.
        prune: source columns and the vertex columns whose values they must have, such as ``{"day":
            dates.column("d")}``. Rows without such a value are not read, nor are partition folders without such rows;
            for sources.
        bounded: True if no more files will arrive; for sources of streams, which then run as a batch.

    Raises:
        ValueError: an unknown format, mode, missing or rewritten; an empty path or one without a place; invalid or
            repeated column names; less than one file; overwrite_partitions without partition_by, or replace_foreign
            without overwrite.
    """

    path: str
    format: FileFormat = "parquet"
    mode: WriteMode = "overwrite"
    schema: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    missing: Missing = "error"
    partition_by: tuple[str, ...] = ()
    sort_by: tuple[str, ...] = ()
    files: int | None = None
    incremental: bool = False
    rewritten: Rewritten = "error"
    replace_foreign: bool = False
    prune: Mapping[str, VertexColumn] = field(default_factory=dict)
    bounded: bool = False

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("Files: the path is empty; give a folder, a file or a glob")
        if self.format not in _FORMATS:
            raise ValueError(f"Files({self.path!r}): format is {self.format!r}; expected one of {', '.join(_FORMATS)}")
        if self.mode not in WRITE_MODES:
            raise ValueError(f"Files({self.path!r}): mode is {self.mode!r}; expected one of {', '.join(WRITE_MODES)}")
        if self.missing not in _MISSING:
            raise ValueError(
                f"Files({self.path!r}): missing is {self.missing!r}; expected one of {', '.join(_MISSING)}"
            )
        if self.rewritten not in _REWRITTEN:
            raise ValueError(
                f"Files({self.path!r}): rewritten is {self.rewritten!r}; expected one of {', '.join(_REWRITTEN)}"
            )
        if self.missing == "empty" and self.schema is None:
            raise ValueError(f"Files({self.path!r}): missing='empty' needs a schema; give schema='id BIGINT, ...'")
        object.__setattr__(self, "prune", check_prune(f"Files({self.path!r})", self.prune))
        self._check_layout()
        try:
            if isinstance(self.path, str):  # an XCom has a path only in the run
                with_authority(self.path)
        except ValueError as error:
            raise ValueError(f"Files: {error}") from None

    def _check_layout(self) -> None:
        """How a sink's rows are laid out; lists of columns are kept as tuples."""
        for what in ("partition_by", "sort_by"):
            object.__setattr__(self, what, column_list(f"Files({self.path!r})", what, getattr(self, what)))
        check_file_count(f"Files({self.path!r})", self.files)
        if self.replace_foreign and self.mode != "overwrite":
            raise ValueError(
                f"Files({self.path!r}): replace_foreign is for mode 'overwrite', and this is {self.mode!r}; leave it "
                "out"
            )
        if self.mode == "overwrite_partitions" and not self.partition_by:
            raise ValueError(
                f"Files({self.path!r}): mode='overwrite_partitions' replaces partitions, and there are none; give "
                "partition_by=['day'], or use mode 'overwrite'"
            )

    @property
    def uri(self) -> str:
        """The path as Spark takes it: with a scheme, ``s3a`` for S3, and without the connection of Airflow."""
        path = with_authority(self.path)
        return for_hadoop(without_connection(path)) if "://" in path else f"file://{Path(path).absolute()}"

    @property
    def asset_uri(self) -> str | None:
        """Of the folder up to the first that is templated, the same for every run; None if that is no folder."""
        if not isinstance(self.path, str):
            return None  # an XCom: the path is not known before the run
        fixed = _TEMPLATED.split(self.path, maxsplit=1)[0]
        folder = fixed if fixed == self.path else fixed.rpartition("/")[0]
        uri = without_connection(folder) if "://" in folder else f"file://{folder}"
        return uri.rstrip("/") if folder.strip("/") else None

    @property
    def bound(self) -> str:
        """What says that it is bounded; "" if it is not."""
        return "bounded=True" if self.bounded else ""

    @property
    def is_recursive(self) -> bool:
        """Spark's ``recursiveFileLookup``: files of all subfolders, and no partition columns."""
        return self._option("recursiveFileLookup") == "true"

    @property
    def name_pattern(self) -> str | None:
        """Spark's ``pathGlobFilter``: only files whose name matches."""
        return self._option("pathGlobFilter")

    @property
    def base_path(self) -> str | None:
        """Spark's ``basePath``: below it every folder ``name=value`` is a partition column."""
        return self._option("basePath")

    def _option(self, name: str) -> str | None:
        """Spark's options do not care for case."""
        return next((_as_text(value) for key, value in self.options.items() if key.lower() == name.lower()), None)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "format": self.format,
            "mode": self.mode,
            "schema": self.schema,
            "options": {key: _as_text(value) for key, value in self.options.items()},
            "missing": self.missing,
            "partition_by": list(self.partition_by),
            "sort_by": list(self.sort_by),
            "files": self.files,
            "incremental": self.incremental,
            "rewritten": self.rewritten,
            "replace_foreign": self.replace_foreign,
            "prune": {column: asdict(values) for column, values in self.prune.items()},
            "bounded": self.bounded,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Files:
        return cls(**value)


def column_list(who: str, what: str, given: Any) -> tuple[str, ...]:
    """Columns of a sink's layout, checked; `who` and `what` name them in the message.

    Raises:
        ValueError: they are no names, or one is named twice.
    """
    is_list = isinstance(given, (list, tuple)) and all(isinstance(name, str) and name for name in given)
    if not is_list or len({name.lower() for name in given}) < len(given):
        raise ValueError(f"{who}: {what} is {given!r}; expected a list of columns, each once, such as ['day']")
    return tuple(given)


def check_file_count(who: str, files: Any) -> None:
    """The number of a sink's files.

    Raises:
        ValueError: less than one.
    """
    if files is not None and (isinstance(files, bool) or not isinstance(files, int) or files < 1):
        raise ValueError(f"{who}: files is {files!r}; expected a number of at least 1")


def _as_text(value: object) -> str:
    """Spark's options are strings; Python's True is its ``true``."""
    return str(value).lower() if isinstance(value, bool) else str(value)
