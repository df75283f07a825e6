"""The values of a column, read from the files that subtasks wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.core.pruning.value_ranges import ValueRanges
from airflow_abs.exchange.errors import DamagedFileError, MissingFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.pruning.column_values import read_column_values
from airflow_abs.exchange.records.manifest import Manifest, ResultFile, ResultManifest


def write(root: Path, *files: Sequence[Any], kind: pa.DataType | None = None) -> tuple[JobFolder, list[Manifest]]:
    """One subtask for each file, with two rows in a row group."""
    folder = JobFolder(root, "dag", "run", "job")
    manifests = []
    for index, values in enumerate(files):
        path = f"dates/subtask-{index}/part-0.parquet"
        target = Path(str(folder.file_path(path)))
        target.parent.mkdir(parents=True)
        pq.write_table(pa.table({"d": pa.array(values, kind), "other": range(len(values))}), target, row_group_size=2)
        entry = ResultFile(path, target.stat().st_size, len(values), 0, (target.stat().st_size,) if values else ())
        result = ResultManifest("parquet", "{}", 1, (entry,))
        manifests.append(Manifest("dates", index, 1, "digest", 1.0, {"dates.all": result}))
    return folder, manifests


def read(root: Path, *files: Sequence[Any], kind: pa.DataType | None = None, most: int = 100) -> ValueRanges:
    return read_column_values(*write(root, *files, kind=kind), "dates.all", "d", most)


def test_the_values_of_all_files_and_row_groups_count_once_and_null_never(tmp_path: Path) -> None:
    found = read(tmp_path, [3, 1, None, 3, 7], [1, None], [], kind=pa.int32())
    assert found == ValueRanges(((1, 1), (3, 3), (7, 7)), 3)


def test_beyond_the_bound_the_least_and_the_greatest_are_kept_whatever_comes_later(tmp_path: Path) -> None:
    assert read(tmp_path, [5, 6, 7, 8], [9, 1], [4, None], most=3) == ValueRanges(((1, 9),))


def test_no_value_at_all_is_no_range(tmp_path: Path) -> None:
    assert read(tmp_path, [None, None], [], kind=pa.int64()) == ValueRanges((), 0)


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([date(1970, 1, 2)], pa.date32(), 1),
        ([datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"), 1_000_000),
        ([datetime(1970, 1, 1, 0, 0, 1)], pa.timestamp("us"), 1_000_000),  # noqa: DTZ001 - of the clock
        ([Decimal("2.5")], pa.decimal128(38, 2), 250),
        (["é"], pa.string(), "é"),
    ],
)
def test_dates_times_decimals_and_texts_are_read_as_bounds_of_files_are(
    tmp_path: Path, values: list[Any], kind: pa.DataType, expected: object
) -> None:
    assert read(tmp_path, values, kind=kind).ranges == ((expected, expected),)


def test_a_lost_file_and_one_without_the_column_are_told_by_name(tmp_path: Path) -> None:
    folder, manifests = write(tmp_path, [1, 2])
    with pytest.raises(DamagedFileError, match=r"part-0.parquet: not a whole Parquet file: it has no column 'e'"):
        read_column_values(folder, manifests, "dates.all", "e")
    (tmp_path / str(folder.file_path("dates/subtask-0/part-0.parquet"))).unlink()
    with pytest.raises(MissingFileError, match=r"part-0.parquet: no such file; clear the subtask that wrote it"):
        read_column_values(folder, manifests, "dates.all", "d")
