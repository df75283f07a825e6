"""Where the pages of a Parquet file lie: footer and offset index, without any data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from airflow_abs.exchange.results.thrift_compact import ThriftError, read_struct
from airflow_abs.exchange.storage.ranged_file import RangedFile

_MAGIC = b"PAR1"
_TAIL_BYTES = 128 * 1024  # one read gets footer and page index of most files

# what the decoder and the access to fields that must be there raise on bytes that are something else
_UNDECODABLE = (ThriftError, KeyError, TypeError, AttributeError, IndexError, EOFError)


class NotParquetError(ValueError):
    """The file does not end as a Parquet file does, or its footer cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Page:
    """A data page: compressed size with its header in bytes, and its first row within the row group."""

    bytes: int
    first_row: int


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One leaf column of one row group.

    `bytes` is its compressed size with page headers and dictionary; `pages` is empty without an offset index.
    [start, stop) is where it lies in the file.
    """

    column: str
    bytes: int
    start: int
    pages: tuple[Page, ...]

    @property
    def stop(self) -> int:
        return self.start + self.bytes


@dataclass(frozen=True, slots=True)
class RowGroup:
    rows: int
    columns: tuple[ColumnChunk, ...]


@dataclass(frozen=True, slots=True)
class Footer:
    rows: int
    row_groups: tuple[RowGroup, ...]

    @property
    def column_bytes(self) -> int:
        """Compressed bytes of all columns: the file less magic numbers, page indexes and footer."""
        return sum(chunk.bytes for group in self.row_groups for chunk in group.columns)

    @property
    def data_stop(self) -> int:
        """Where the pages end and page indexes and footer begin."""
        return max((chunk.stop for group in self.row_groups for chunk in group.columns), default=len(_MAGIC))


def read_footer(file: RangedFile) -> Footer:
    """Read the footer and all offset indexes: one request for most files, at most three.

    Raises:
        NotParquetError: truncated, encrypted or not Parquet at all.
    """
    try:
        return _footer(file)
    except _UNDECODABLE as error:
        raise NotParquetError(
            f"its footer or page index cannot be decoded ({type(error).__name__}: {error})"
        ) from error


def read_row_count(file: RangedFile) -> int:
    """Rows of a Parquet file, from its footer alone; errors as `read_footer`."""
    try:
        return int(_metadata(file)[0][3])
    except _UNDECODABLE as error:
        raise NotParquetError(f"its footer cannot be decoded ({type(error).__name__}: {error})") from error


def _metadata(file: RangedFile) -> tuple[dict[int, Any], int]:
    """FileMetaData as decoded, and where the footer starts."""
    file.fetch([(max(0, file.size - _TAIL_BYTES), file.size)])
    tail = file.range(max(0, file.size - 8), file.size)
    if len(tail) < 8 or tail[4:] != _MAGIC:
        raise NotParquetError(f"{file.size} bytes that do not end in {_MAGIC!r}")
    start = file.size - 8 - int.from_bytes(tail[:4], "little")
    if start < len(_MAGIC):
        raise NotParquetError(f"its footer would start at byte {start} of {file.size}")
    return read_struct(file.range(start, file.size - 8)), start


def _footer(file: RangedFile) -> Footer:
    metadata, footer_start = _metadata(file)
    groups: list[dict[int, Any]] = metadata[4]
    # ColumnChunk: 4 = offset of its offset index, 5 = length of it
    offsets = [chunk[4] for group in groups for chunk in group[1] if 4 in chunk]
    if offsets:
        file.fetch([(min(offsets), footer_start)])  # indexes lie together, right before the footer
    row_groups = tuple(RowGroup(group[3], tuple(_chunks(group[1], file))) for group in groups)
    _check_sane(row_groups, metadata[3], footer_start)
    return Footer(rows=metadata[3], row_groups=row_groups)


def _check_sane(row_groups: tuple[RowGroup, ...], rows: int, footer_start: int) -> None:
    if sum(group.rows for group in row_groups) != rows or any(group.rows < 0 for group in row_groups):
        raise NotParquetError(f"its row groups do not add up to its {rows} rows")
    for group in row_groups:
        for chunk in group.columns:
            if chunk.bytes < 0 or chunk.start < 0 or chunk.stop > footer_start:
                raise NotParquetError(f"column {chunk.column!r} would lie at [{chunk.start}, {chunk.stop})")
            if not _in_order(chunk.pages, group.rows):
                raise NotParquetError(f"the page index of column {chunk.column!r} is out of order")


def _in_order(pages: tuple[Page, ...], rows: int) -> bool:
    firsts = [page.first_row for page in pages]
    ascending = all(one < other for one, other in pairwise(firsts))
    return ascending and (not pages or (firsts[0] == 0 and firsts[-1] <= rows and min(p.bytes for p in pages) >= 0))


def _chunks(chunks: list[dict[int, Any]], file: RangedFile) -> Iterable[ColumnChunk]:
    for chunk in chunks:
        # ColumnMetaData: 3 = path in schema, 7 = compressed size, 9 = first data page, 11 = dictionary page
        metadata = chunk[3]
        yield ColumnChunk(
            column=".".join(part.decode("utf-8", "replace") for part in metadata[3]),
            bytes=metadata[7],
            start=min(metadata[9], metadata.get(11) or metadata[9]),
            pages=_pages(file.range(chunk[4], chunk[4] + chunk[5])) if 4 in chunk else (),
        )


def _pages(offset_index: bytes) -> tuple[Page, ...]:
    # OffsetIndex: 1 = page locations; PageLocation: 1 = offset, 2 = compressed size, 3 = first row
    return tuple(Page(location[2], location[3]) for location in read_struct(offset_index)[1])
