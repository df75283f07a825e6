"""The log of Spark's file source says how old the files of a batch were; where it does not, nobody guesses."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.exchange.streaming.file_source_log import oldest_file


def write_log(spark: ExchangePath, name: str, entries: Sequence[tuple[int, int]], path: str = "file:///in/a") -> None:
    """Entries of a log: number of the entry, and when the file was written in milliseconds."""
    lines = [json.dumps({"path": path, "timestamp": time, "batchId": number}) for number, time in entries]
    write_atomic(spark / f"sources/0/{name}", "\n".join(["v1", *lines]).encode())


def test_the_oldest_of_several_entries_counts(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_log(spark, "7", [(7, 9_000), (7, 5_500)])
    write_log(spark, "8", [(8, 7_000)])
    assert oldest_file(spark, 0, 7, 8) == 5.5
    assert oldest_file(spark, 0, 8, 8) == 7.0


def test_of_a_compacted_log_only_the_entries_own_files_count(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_log(spark, "9.compact", [(8, 1_000), (9, 4_000), (9, 3_000)])
    assert oldest_file(spark, 0, 9, 9) == 3.0


def test_of_a_long_compacted_log_the_tail_is_read(job: JobFolder) -> None:
    spark = job.root / "spark"
    old = [(number // 100, 1_000) for number in range(900)]
    write_log(spark, "9.compact", [*old, (9, 4_000), (9, 3_000)], path="file:///in/" + "x" * 200)
    assert oldest_file(spark, 0, 9, 9) == 3.0


def test_if_the_tail_is_the_entrys_own_files_nobody_knows(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_log(spark, "9.compact", [(9, 4_000)] * 900, path="file:///in/" + "x" * 200)
    assert oldest_file(spark, 0, 9, 9) is None


def test_of_a_long_entry_the_head_counts_where_the_oldest_stand(job: JobFolder) -> None:
    spark = job.root / "spark"
    write_log(spark, "3", [(3, 1_000 + number) for number in range(900)], path="file:///in/" + "x" * 200)
    assert oldest_file(spark, 0, 3, 3) == 1.0


@pytest.mark.parametrize(
    "content", [b"", b"v1\n{", b'v1\n{"path": "a"}', b"v1\n{}", b'v1\n{"batchId":3,"timestamp":[]}']
)
def test_a_log_that_is_another_one_says_nothing(job: JobFolder, content: bytes) -> None:
    spark = job.root / "spark"
    assert oldest_file(spark, 0, 3, 3) is None
    write_atomic(spark / "sources/0/3", content)
    assert oldest_file(spark, 0, 3, 3) is None
