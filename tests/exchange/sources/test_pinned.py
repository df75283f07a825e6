"""What `plan` fixed of a table is read back as it was, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable, read_pinned, write_pinned_files
from airflow_abs.exchange.storage.whole_files import write_json

FILES = [SourceFile("s3a://lake/a.parquet", 10), SourceFile("s3a://lake/[b].parquet", 2**40)]


def test_files_are_read_back_in_order(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    write_pinned_files(folder, "orders", "orders", FILES)
    assert read_pinned(folder, "orders", "orders").files == FILES


@pytest.mark.parametrize("files", [None, [["a"]], [["a", "10"]], {"a": 10}])
def test_a_list_that_is_none_is_refused_by_its_path(tmp_path: Path, files: object) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    write_json(folder.pinned_path("orders", "orders"), {"files": files})
    with pytest.raises(DamagedFileError, match=r"source-orders\.json: .*; the record is damaged"):
        read_pinned(folder, "orders", "orders")


def test_a_table_is_named_with_its_version() -> None:
    table = PinnedTable("lake.db.t", "snapshot 7", "parquet", "{}", 1, 10, 1, 10)
    assert table.label == "lake.db.t at snapshot 7"
    assert PinnedTable("lake.db.t", "", "parquet", "{}", 0, 0, 0, 0).label == "lake.db.t (empty)"
