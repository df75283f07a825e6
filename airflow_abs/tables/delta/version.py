"""What one version of a Delta table holds: its files after pruning, or why Spark could not read them rightly."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.tables.delta.columns import DeltaColumns, read_columns, stored_fields
from airflow_abs.tables.delta.features import check_readable
from airflow_abs.tables.delta.partition_values import is_read, text_of
from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    from deltalake import DeltaTable

_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")


@dataclass(frozen=True, slots=True)
class VersionFile:
    """A data file: `path` below the table, or an absolute URI (of a shallow clone), as it is on the storage, while the
    log escapes it; size in bytes; the texts of its partition values, in the order of the partition columns; `spans` of
    the columns that were asked for."""

    path: str
    bytes: int
    partition: tuple[str | None, ...]
    spans: tuple[Span | None, ...] = ()

    @property
    def is_absolute(self) -> bool:
        return _ABSOLUTE.match(self.path) is not None


@dataclass(frozen=True, slots=True)
class VersionContent:
    """What is read of a table, fixed: every subtask, retry and recomputation reads these files with these columns.

    `all_files` and `all_bytes` are what the version holds before pruning; `condition` is Spark's SQL of the one that
    rows must meet besides.
    """

    table: str
    version: int
    columns: DeltaColumns
    files: tuple[VersionFile, ...]
    all_files: int
    all_bytes: int
    condition: str | None = None
    uuid: str = ""


def read_version(
    name: str,
    table: DeltaTable,
    *,
    where: str | None = None,
    sizes: Callable[[], dict[str, int]] | None = None,
    prune: Sequence[str] = (),
) -> VersionContent:
    """List the files of the version that a table is loaded at that may hold rows for which `where` is true.

    Args:
        name: of the table, for messages.
        table: loaded.
        where: see `read_condition`.
        prune: columns whose values in each file are wanted.
        sizes: of an earlier version: what is on the storage, where VACUUM may have deleted files.

    Raises:
        TableError: a feature, see `check_readable`; a column's type, see `read_columns`; a partition column whose
            values cannot be given; `where`, see `read_condition`; files are gone.
    """
    check_readable(name, table)
    columns = read_columns(name, table)
    for column in columns.partitions:
        if not is_read(columns.type_of(column)):
            raise TableError(
                f"table {name}: is partitioned by {column!r}, which is {columns.type_of(column)}; values of that type "
                "cannot be taken from the log. Read a copy of the table that is partitioned by something else"
            )
    adds = pa.table(table.get_add_actions(flatten=False))
    chosen: Sequence[int] = range(adds.num_rows)
    condition = None
    if where is not None:
        from airflow_abs.tables.delta.pruning import choose_files, condition_on

        understood, schema = condition_on(name, columns, where)
        chosen, condition = choose_files(understood, schema, stored_fields(table), adds), understood.sql
    every = files_of(adds, columns.partitions)
    if prune:
        from airflow_abs.tables.delta.pruning import spans_of

        known = [spans_of(columns, stored_fields(table), adds, column) for column in prune]
        every = [replace(file, spans=tuple(spans[number] for spans in known)) for number, file in enumerate(every)]
    read = sorted((every[number] for number in chosen), key=_path)
    if sizes is not None:
        _check_there(name, table.version(), read, sizes())
    return VersionContent(
        table=name,
        version=table.version(),
        columns=columns,
        files=tuple(read),
        all_files=len(every),
        all_bytes=sum(file.bytes for file in every),
        condition=condition,
        uuid=str(table.metadata().id),
    )


def files_of(adds: pa.Table, partitions: Sequence[str]) -> list[VersionFile]:
    """The files that add actions name, in their order."""
    found: Any = adds["partition"].to_pylist() if partitions else [{}] * adds.num_rows
    paths, sizes = adds["path"].to_pylist(), adds["size_bytes"].to_pylist()
    return [
        VersionFile(unquote(path), size, tuple(text_of(values[column]) for column in partitions))
        for path, size, values in zip(paths, sizes, found, strict=True)
    ]


def _path(file: VersionFile) -> str:
    return file.path


def _check_there(name: str, version: int, files: Sequence[VersionFile], sizes: dict[str, int]) -> None:
    gone = [file.path for file in files if not file.is_absolute and file.path not in sizes]
    if gone:
        raise TableError(
            f"table {name}: {len(gone)} of {len(files)} files of version {version} are gone (such as {gone[0]}): "
            "VACUUM deleted them; name a later version, or leave version= out for the newest"
        )
