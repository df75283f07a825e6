"""Where the pages of a Parquet file lie: footer and offset index, without any data.

    | data pages ... | page indexes | FileMetaData | its length (4 bytes) | PAR1 |
                       ^ OffsetIndex of each column chunk

Kept by hand: pyarrow reads the footer, but of an offset index only says that there is one, so it cannot tell how large
pages are and at which row each begins. A compiled Thrift reader would take 1 ms a file where this takes 4: no reason
for a dependency. One ranged read of a file's end gives footer and indexes of most files. The numbers of the fields are
those of https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Any

from airflow_abs.exchange.results.thrift_compact import ThriftError, read_struct
from airflow_abs.exchange.storage.ranged_file import RangedFile

Fields = dict[int, Any]
"""A Thrift struct: the values of its fields by their numbers."""

_MAGIC = b"PAR1"
_TAIL_BYTES = 128 * 1024  # one read gets footer and page index of most files

# what the decoder and the access to fields that must be there raise on bytes that are something else
_UNDECODABLE = (ThriftError, KeyError, TypeError, AttributeError, IndexError, EOFError)


class _FileMetaData(IntEnum):
    NUM_ROWS = 3
    ROW_GROUPS = 4


class _RowGroup(IntEnum):
    COLUMNS = 1
    NUM_ROWS = 3


class _ColumnChunk(IntEnum):
    META_DATA = 3
    OFFSET_INDEX_OFFSET = 4
    OFFSET_INDEX_LENGTH = 5


class _ColumnMetaData(IntEnum):
    PATH_IN_SCHEMA = 3
    TOTAL_COMPRESSED_SIZE = 7
    DATA_PAGE_OFFSET = 9
    DICTIONARY_PAGE_OFFSET = 11


class _OffsetIndex(IntEnum):
    PAGE_LOCATIONS = 1


class _PageLocation(IntEnum):
    COMPRESSED_PAGE_SIZE = 2
    FIRST_ROW_INDEX = 3


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


def _metadata(file: RangedFile) -> tuple[Fields, int]:
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
    groups = metadata[_FileMetaData.ROW_GROUPS]
    chunks = [chunk for group in groups for chunk in group[_RowGroup.COLUMNS]]
    if indexes := [chunk[_ColumnChunk.OFFSET_INDEX_OFFSET] for chunk in chunks if _has_page_index(chunk)]:
        file.fetch([(min(indexes), footer_start)])  # they lie together, right before the footer
    row_groups = tuple(
        RowGroup(group[_RowGroup.NUM_ROWS], tuple(_column(chunk, file) for chunk in group[_RowGroup.COLUMNS]))
        for group in groups
    )
    rows = metadata[_FileMetaData.NUM_ROWS]
    _check_sane(row_groups, rows, footer_start)
    return Footer(rows, row_groups)


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


def _column(chunk: Fields, file: RangedFile) -> ColumnChunk:
    metadata = chunk[_ColumnChunk.META_DATA]
    first_page = metadata[_ColumnMetaData.DATA_PAGE_OFFSET]
    return ColumnChunk(
        column=".".join(part.decode("utf-8", "replace") for part in metadata[_ColumnMetaData.PATH_IN_SCHEMA]),
        bytes=metadata[_ColumnMetaData.TOTAL_COMPRESSED_SIZE],
        start=min(first_page, metadata.get(_ColumnMetaData.DICTIONARY_PAGE_OFFSET) or first_page),
        pages=_pages(chunk, file) if _has_page_index(chunk) else (),
    )


def _has_page_index(chunk: Fields) -> bool:
    return _ColumnChunk.OFFSET_INDEX_OFFSET in chunk


def _pages(chunk: Fields, file: RangedFile) -> tuple[Page, ...]:
    start, length = chunk[_ColumnChunk.OFFSET_INDEX_OFFSET], chunk[_ColumnChunk.OFFSET_INDEX_LENGTH]
    locations = read_struct(file.range(start, start + length))[_OffsetIndex.PAGE_LOCATIONS]
    return tuple(
        Page(location[_PageLocation.COMPRESSED_PAGE_SIZE], location[_PageLocation.FIRST_ROW_INDEX])
        for location in locations
    )
