"""Bytes and rows of each subpartition in Parquet files, near-exact, without scanning data.

Spark writes the rows of a result sorted by an INT column `__subpartition`. Footer and offset index say how many
bytes each page takes and which rows it holds; the sorted column itself is tiny (run-length coded), so reading it
says which rows belong to which subpartition. The bytes of a page are shared in proportion to rows.

What is counted: compressed column bytes (page headers and dictionaries included; footers, page indexes and magic
numbers belong to no subpartition). The sizes of one file add up to exactly that, by cumulative rounding. A
dictionary is shared over the rows of its row group. Without a page index all of a row group is.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.errors import DamagedFileError, ExchangeUnreachableError, MissingFileError
from airflow_abs.exchange.results.lost_files import tail_checksum
from airflow_abs.exchange.results.parquet_footer import (
    ColumnChunk,
    Footer,
    NotParquetError,
    read_footer,
)
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, Location, locate
from airflow_abs.exchange.storage.ranged_file import RangedFile

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]

SUBPARTITION_COLUMN = "__subpartition"
"""The column of an exchange file that says which subpartition a row belongs to."""


@dataclass(frozen=True, slots=True)
class MeasuredFile:
    """What one file holds: its size, its rows, and both for subpartitions `first`, `first` + 1, ...

    A subpartition that has rows always has bytes. A file without rows has no sizes and `first` 0. `tail_crc` is the
    checksum of the last `tail_bytes`: everything behind the pages.
    """

    bytes: int
    rows: int
    first: int
    subpartition_bytes: tuple[int, ...]
    subpartition_rows: tuple[int, ...]
    tail_bytes: int = field(default=0, compare=False)
    tail_crc: str | None = field(default=None, compare=False)


def measure_files(
    paths: Sequence[ExchangePath],
    subpartitions: int,
    *,
    column: str = SUBPARTITION_COLUMN,
    threads: int = 8,
    sizes: Sequence[int] | None = None,
) -> list[MeasuredFile]:
    """Measure Parquet files side by side, in the order given; at most `threads` at once.

    With `subpartitions` 1 the column is not needed and not read: all bytes are subpartition 0's. Who has listed the
    files gives their `sizes` (bytes, in the same order), which spares a request for each.

    Raises:
        MissingFileError, DamagedFileError: naming the file (`.path`), also when it lacks the column or holds a
            subpartition outside [0, subpartitions).
        ExchangeUnreachableError: a file cannot be read.
    """
    if subpartitions < 1 or threads < 1:
        raise ValueError(f"expected at least 1 subpartition and 1 thread, found {subpartitions} and {threads}")
    if not paths:
        return []
    with ThreadPoolExecutor(min(threads, len(paths)), thread_name_prefix="measure-parquet") as pool:
        return list(
            pool.map(
                lambda path, size: measure_file(path, subpartitions, column=column, size=size),
                paths,
                sizes or [None] * len(paths),
            )
        )


def measure_file(
    path: ExchangePath, subpartitions: int, *, column: str = SUBPARTITION_COLUMN, size: int | None = None
) -> MeasuredFile:
    """Measure one Parquet file; see `measure_files`."""
    with OpenedParquet(path, size) as file:
        footer = read_footer(file)
        if subpartitions == 1:
            sizes, rows = _whole(footer)
        else:
            sizes, rows = _by_subpartition(file, footer, subpartitions, column)
        tail = file.range(footer.data_stop, file.size)
    measured = _trimmed(file.size, footer.rows, sizes, rows)
    return replace(measured, tail_bytes=len(tail), tail_crc=tail_checksum(tail))


class OpenedParquet:
    """Opens a file for ranged reads and gives storage and format errors the file's name."""

    def __init__(self, path: ExchangePath, size: int | None = None) -> None:
        self._location: Location = locate(path)
        self._size = size

    def __enter__(self) -> RangedFile:
        try:
            return RangedFile(self._location, self._size_now() if self._size is None else self._size)
        except storage_errors() as error:
            self.__exit__(type(error), error, None)
            raise

    def _size_now(self) -> int:
        path = self._location.path
        return int(os.stat(path).st_size if self._location.is_local else self._location.fs.size(path))  # noqa: PTH116

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        where = str(self._location)
        match error:
            case FileNotFoundError() | NotADirectoryError():
                raise MissingFileError(f"{where}: no such file; clear the subtask that wrote it", path=where) from error
            case NotParquetError():
                raise DamagedFileError(
                    f"{where}: not a whole Parquet file: {error}; clear the subtask that wrote it", path=where
                ) from error
            case Exception() if isinstance(error, storage_errors()):
                raise_if_throttled(where, error)
                raise ExchangeUnreachableError(
                    f"{where}: cannot be read ({reason_of(error)}); check that Airflow may read what Spark writes"
                ) from error


def _whole(footer: Footer) -> tuple[Ints, Ints]:
    import numpy as np

    return np.array([footer.column_bytes]), np.array([footer.rows])


def _by_subpartition(file: RangedFile, footer: Footer, subpartitions: int, column: str) -> tuple[Ints, Ints]:
    """Bytes and rows of all subpartitions, each an array of length `subpartitions`."""
    import numpy as np

    shares = np.zeros(subpartitions, dtype=np.float64)
    rows = np.zeros(subpartitions, dtype=np.int64)
    for chunks, values in zip(
        (group.columns for group in footer.row_groups), _column_values(file, footer, column), strict=True
    ):
        if len(values) == 0:
            continue
        if values.min() < 0 or values.max() >= subpartitions:
            raise NotParquetError(
                f"column {column!r} holds {values.min()}..{values.max()}, expected values in [0, {subpartitions})"
            )
        counts = np.bincount(values, minlength=subpartitions).astype(np.int64)
        is_sorted = bool(np.all(values[1:] >= values[:-1]))
        rows += counts
        for chunk in chunks:
            shares += _chunk_shares(chunk, counts, is_sorted)
    return _rounded(shares, rows, footer.column_bytes), rows


def _column_values(file: RangedFile, footer: Footer, column: str) -> list[Ints]:
    """The values of one INT column, one array for each row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    chunks = [chunk for group in footer.row_groups for chunk in group.columns if chunk.column == column]
    if len(chunks) != len(footer.row_groups):
        found = sorted({chunk.column for group in footer.row_groups for chunk in group.columns})
        raise NotParquetError(f"it has no column {column!r}; found {', '.join(found)}")
    file.fetch([(chunk.start, chunk.stop) for chunk in chunks])
    try:
        parquet: Any = pq.ParquetFile(pa.PythonFile(file, mode="r"), pre_buffer=False)
        return [
            _as_ints(parquet.read_row_group(number, columns=[column], use_threads=False), column)
            for number in range(len(footer.row_groups))
        ]
    except NotParquetError:
        raise
    # The bytes are in memory already: an OSError is pyarrow's word, too. The others are what damaged names lead to.
    except (pa.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        raise NotParquetError(f"column {column!r} cannot be read ({error})") from error


def _as_ints(table: Any, column: str) -> Ints:
    import numpy as np

    values = table.column(column)
    if values.null_count:
        raise NotParquetError(f"column {column!r} holds {values.null_count} NULLs, expected none")
    if not str(values.type).startswith("int"):
        raise NotParquetError(f"column {column!r} is of type {values.type}, expected a signed integer")
    return np.asarray(values.to_numpy(), dtype=np.int64)


def _chunk_shares(chunk: ColumnChunk, counts: Ints, is_sorted: bool) -> Floats:
    """Bytes of one column chunk by subpartition; `counts` are the rows of each in the chunk's row group."""
    import numpy as np

    stops = np.cumsum(counts)  # subpartition j has the rows [stops[j - 1], stops[j]) of a sorted row group
    rows = stops[-1]
    first_rows = [page.first_row for page in chunk.pages]
    if not is_sorted or not first_rows:
        return np.asarray(counts * (chunk.bytes / rows), dtype=np.float64)
    page_bytes = np.array([page.bytes for page in chunk.pages], dtype=np.float64)
    dictionary = max(0.0, chunk.bytes - float(page_bytes.sum()))
    curve = np.concatenate([[0.0], np.cumsum(page_bytes)])  # bytes before each page, straight within one
    sizes = np.diff(np.interp(stops, [*first_rows, rows], curve), prepend=0.0)
    return np.asarray(sizes + counts * (dictionary / rows), dtype=np.float64)


def _rounded(shares: Floats, rows: Ints, total: int) -> Ints:
    """Whole numbers near `shares` that add up to `total`, at least 1 where there are rows, 0 elsewhere.

    A reader skips files by these sizes, so a subpartition with rows must never be rounded to 0. (With fewer bytes
    than subpartitions that have rows, which no real file has, each gets 1 and the sum is above the total.)
    """
    import numpy as np

    present = (rows > 0).astype(np.int64)
    spare = max(0, total - int(present.sum()))
    whole = float(shares.sum())
    if whole <= 0:
        return present
    curve = np.minimum(np.rint(np.cumsum(shares / whole) * spare), spare).astype(np.int64)
    curve[np.flatnonzero(present)[-1] :] = spare
    return present + np.diff(curve, prepend=0)


def _trimmed(size: int, row_count: int, sizes: Ints, rows: Ints) -> MeasuredFile:
    import numpy as np

    present = np.flatnonzero(rows)
    if len(present) == 0:
        return MeasuredFile(size, row_count, 0, (), ())
    first, stop = int(present[0]), int(present[-1]) + 1
    return MeasuredFile(size, row_count, first, tuple(sizes[first:stop].tolist()), tuple(rows[first:stop].tolist()))
