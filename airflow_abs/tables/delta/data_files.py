"""From what Spark wrote to the exchange to files of a Delta table: copied below its path, measured, described."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from airflow_abs.tables.delta.partition_values import logged_text, text_of_folder
from airflow_abs.tables.publishing.required_values import check_required, leaf_paths
from airflow_abs.tables.publishing.staged_files import (
    COPIES_AT_ONCE,
    check_partition,
    copy_bytes,
    open_staged,
    partition_texts,
)

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable
    from airflow_abs.tables.delta.storage import TableFolder

_LONGEST_TEXT = 32
_DIGITS_OF_A_FLOAT = 15
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that is to be in the table: its action, and the texts of its partition values."""

    action: AddAction
    partition: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class _Writer:
    """What is the same for all files of one publication."""

    folder: TableFolder
    target: TargetTable
    prefix: str

    def add(self, number: int, staged: StagedFile) -> NewFile:
        """Copy one file under a name of its own, and describe it."""
        name = f"{self.prefix}-{number:05d}.parquet"
        partition = self._partition(staged)
        with open_staged(staged) as stream, self.folder.create(name) as output:
            copy_bytes(stream, output, staged.bytes)
        with self.folder.open(name) as stream:
            written = pq.ParquetFile(stream)
            check_required(self.target, staged, written)
        logged = (logged_text(each.kind, text) for each, text in zip(self.target.partitions, partition, strict=True))
        action = AddAction(
            path=name,
            size=staged.bytes,
            partition_values=dict(zip(self.target.not_in_files, logged, strict=True)),
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps(statistics(written)),
        )
        return NewFile(action, partition)

    def _partition(self, staged: StagedFile) -> tuple[str | None, ...]:
        texts = partition_texts(staged.name)
        found = [text_of_folder(each.kind, texts[each.column]) for each in self.target.partitions]
        check_partition(self.target, staged, found, "every reader of Delta")
        return tuple(found)


def make_data_files(
    folder: TableFolder, target: TargetTable, staged: Sequence[StagedFile], prefix: str
) -> list[NewFile]:
    """Bring a publication's files to the table's folder; what fails there leaves files that no version names.

    Args:
        folder: of the table.
        target: as planned.
        staged: in the exchange.
        prefix: of the files' names; a part that is new each time is added.

    Raises:
        MissingFileError, DamagedFileError: a staged file is gone or has another size than its manifest says.
        TableError: NULL in a required column, or an empty text as a partition.
    """
    writer = _Writer(folder, target, f"{prefix}-{uuid.uuid4().hex[:12]}")
    with ThreadPoolExecutor(COPIES_AT_ONCE, thread_name_prefix="copy-to-table") as pool:
        return list(pool.map(writer.add, range(len(staged)), staged))


def statistics(file: pq.ParquetFile) -> dict[str, Any]:
    """What the log says of a file, from its footer: rows, and for columns in no list or map the bounds and NULLs.

    A bound that JSON cannot hold exactly is widened (times to milliseconds, long texts) or left out (long decimals).
    """
    lows: dict[str, Any] = {}
    highs: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    footer = file.metadata
    for column, path in enumerate(leaf_paths(file.schema_arrow)):
        if footer.schema.column(column).max_repetition_level:
            continue
        groups = [footer.row_group(group).column(column).statistics for group in range(footer.num_row_groups)]
        if not groups or any(each is None for each in groups):
            continue
        if all(each.has_null_count for each in groups):
            _put(nulls, path, sum(each.null_count for each in groups))
        bounds = list(_bounds(groups))
        if bounds and (low := _low(min(low for low, _ in bounds))) is not None:
            _put(lows, path, low)
        if bounds and (high := _high(max(high for _, high in bounds))) is not None:
            _put(highs, path, high)
    return {"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls}


def _bounds(groups: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Of the row groups that have values; none at all if one does not say."""
    with_values = [each for each in groups if each.has_min_max or each.num_values]
    if all(each.has_min_max for each in with_values):
        yield from ((each.min, each.max) for each in with_values)


def _put(of: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        of = of.setdefault(name, {})
    of[path[-1]] = value


def _low(value: Any) -> Any:
    match value:
        case str():
            return value[:_LONGEST_TEXT]
        case datetime():
            return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _as_json(value)


def _high(value: Any) -> Any:
    match value:
        case str() if len(value) > _LONGEST_TEXT:
            return value[:_LONGEST_TEXT] + chr(0x10FFFF)
        case datetime() if value.microsecond % 1000:
            return _low(value + _MILLISECOND)
        case datetime():
            return _low(value)
    return _as_json(value)


def _as_json(value: Any) -> Any:
    match value:
        case bool() | bytes():
            return None
        case int() | str():
            return value
        case float():
            return value if value - value == 0 else None
        case date():
            return value.isoformat()
        case Decimal() if len(value.as_tuple().digits) <= _DIGITS_OF_A_FLOAT:
            return float(value)
    return None
