"""Partition folders: which columns they are, and what is read when some are left out."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.partitions import partition_of, partition_values
from airflow_abs.exchange.sources.splits import list_source, reads_in_order
from airflow_abs.exchange.storage.whole_files import write_atomic


@pytest.mark.parametrize(
    ("files", "path", "expected"),
    [
        (Files("/lake"), "file:///lake/ds=1/h=2/a.parquet", "ds=1/h=2"),
        (Files("/lake"), "file:///lake/a.parquet", ""),
        (Files("/lake"), "file:///lake/ds=1/more/a.parquet", None),
        (Files("/lake"), "file:///lake/=1/a.parquet", None),
        (Files("/other"), "file:///lake/ds=1/a.parquet", None),
        (Files("/lake/*"), "file:///lake/ds=1/a.parquet", None),
        (Files("/lake", options={"basepath": "/"}), "file:///lake/ds=1/a.parquet", None),
        (Files("/lake", options={"recursiveFileLookup": "true"}), "file:///lake/ds=1/a.parquet", None),
    ],
)
def test_the_folders_between_source_and_file_are_a_partition(files: Files, path: str, expected: str | None) -> None:
    assert partition_of(files, path) == expected


def test_values_are_what_spark_takes_from_the_names_of_folders() -> None:
    assert partition_values("a%20b=x%3Ay/ds=__HIVE_DEFAULT_PARTITION__/c=1=2/p=100%") == {
        "a b": "x:y",
        "ds": None,
        "c": "1=2",
        "p": "100%",
    }


def test_what_is_left_out_is_not_read_and_how_much_is_read_is_counted(tmp_path: Path) -> None:
    for name in ("ds=1/a", "ds=1/b", "ds=2/a", "ds=9/a"):
        write_atomic(tmp_path / name, b"x")
    assert list_source(Files(str(tmp_path)), [], Path).partitions_read is None
    found = list_source(Files(str(tmp_path)), ["ds=1", "ds=7"], Path)
    assert [file.path.removeprefix(f"file://{tmp_path}/") for file in found.files] == ["ds=2/a", "ds=9/a"]
    assert found.partitions_read == (2, 3)


@pytest.mark.parametrize(
    ("columns", "expected"), [(["id", "ds"], True), (["ds", "id"], False), (["id"], False), (["id", "DS"], False)]
)
def test_spark_gives_partition_columns_last(columns: list[str], expected: bool) -> None:
    assert reads_in_order(Files("/lake"), columns, [SourceFile("file:///lake/ds=1/a", 1)]) is expected
    assert reads_in_order(Files("/lake"), columns, [SourceFile("file:///lake/a", 1)])
    assert reads_in_order(Files("/lake"), columns, [])
