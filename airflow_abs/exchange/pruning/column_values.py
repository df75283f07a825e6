"""The values of one column of what a vertex wrote, read from its files: few enough to look at each file of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from airflow_abs.core.pruning.value_ranges import Value, ValueRanges, comparable
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.results.parquet_bytes import OpenedParquet
from airflow_abs.exchange.results.parquet_footer import NotParquetError

MOST_VALUES = 100_000
"""Different ones; of more only the least and the greatest are kept."""


def read_column_values(
    folder: JobFolder, manifests: Sequence[Manifest], result: str, column: str, most: int = MOST_VALUES
) -> ValueRanges:
    """What the column holds in a result of all subtasks of a region, as ranges.

    Memory is bounded by `most` and one row group's column.

    Raises:
        StoredFileError: a file is missing, damaged, or without the column.
        ExchangeUnreachableError: one cannot be read.
    """
    files = [file for manifest in manifests for file in manifest.result(result).files if file.rows]
    kept: set[Value] = set()
    ends: list[Value] = []
    for values in (chunk for file in files for chunk in _chunks(folder, file.path, column)):
        if ends:
            ends = _ends((*ends, *values))
            continue
        kept.update(values)
        if len(kept) > most:
            ends = _ends(kept)
    if ends:
        return ValueRanges(((ends[0], ends[1]),))
    return ValueRanges.covering(kept)


def _ends(values: Iterable[Any]) -> list[Value]:
    known = list(values)
    return [min(known), max(known)]


def _chunks(folder: JobFolder, path: str, column: str) -> Iterator[list[Value]]:
    """The different values of each row group, without NULL."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with OpenedParquet(folder.file_path(path)) as file:
        try:
            opened: Any = pa.PythonFile(file, mode="r")
            parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us", pre_buffer=False)
            for number in range(parquet.num_row_groups):
                found = parquet.read_row_group(number, columns=[column], use_threads=False).column(column)
                yield [comparable(value) for value in pc.unique(found).to_pylist() if value is not None]
        except KeyError as error:
            raise NotParquetError(f"it has no column {column!r}") from error
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise NotParquetError(f"column {column!r} cannot be read ({error})") from error
