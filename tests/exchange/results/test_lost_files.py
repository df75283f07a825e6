from __future__ import annotations

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import ResultFile
from airflow_abs.exchange.results.lost_files import find_lost_files, tail_checksum
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic

DATA = b"PAR1" + b"pages" * 20 + b"footer" + b"PAR1"
FILE = ResultFile("orders/subtask-0/attempt-1/r/part-0", len(DATA), 3, 0, (1,), 10, tail_checksum(DATA[-10:]))


@pytest.fixture
def folder(root: ExchangePath) -> JobFolder:
    return JobFolder(root, "dag", "run", "job")


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        (DATA, None),
        (None, "is gone"),
        (DATA[:-1], "has 113 bytes, was written with 114"),
        (b"", "has 0 bytes, was written with 114"),
        (DATA[:-6] + b"X" + DATA[-5:], "has an altered footer"),
        (DATA[:6] + b"X" + DATA[7:], None),  # a page: Spark's reader checks those
    ],
)
def test_a_file_that_is_not_what_its_manifest_says_is_named(
    folder: JobFolder, found: bytes | None, problem: str | None
) -> None:
    if found is not None:
        write_atomic(folder.file_path(FILE.path), found)
    assert find_lost_files(folder, [FILE]) == ({FILE.path: problem} if problem else {})


def test_without_a_footer_checksum_only_the_size_counts(folder: JobFolder) -> None:
    text = ResultFile("orders/subtask-0/attempt-1/r/part-0", 3, 1, 0, (3,))
    write_atomic(folder.file_path(text.path), b"a,b")
    assert find_lost_files(folder, [text]) == {}
    assert find_lost_files(folder, []) == {}
    locate(folder.file_path(text.path)).fs.rm_file(locate(folder.file_path(text.path)).path)
    assert find_lost_files(folder, [text]) == {text.path: "is gone"}
