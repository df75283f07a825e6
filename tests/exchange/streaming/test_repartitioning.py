"""A repartitioning that did not come to its end leaves nothing behind, on every kind of storage."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import write_atomic
from airflow_abs.exchange.streaming.repartitioning import (
    Repartitioning,
    begin_repartitioning,
    forget_repartitioning,
    is_whole,
    read_repartitioning,
    undo_repartitioning,
)

BEGUN = Repartitioning(batch=10, before=1, after=2, by="host:7:1")
BEFORE = (
    "checkpoint/spark/metadata",
    "checkpoint/spark/offsets/9",
    "checkpoint/spark/offsets/.9.crc",
    "checkpoint/spark/commits/9",
    "checkpoint/spark/commits/.9.crc",
    "checkpoint/spark/sources/0/10",
    "checkpoint/spark/state/0/_metadata/metadata",
    "checkpoint/spark/state/0/0/_metadata/schema",
    "checkpoint/spark/state/0/0/10.zip",
    "checkpoint/spark/state/0/0/.10.zip.crc",
    "checkpoint/spark/state/0/0/SSTs/000012-5b0b3c1e.sst",
    "checkpoint/spark/state/1/0/left-keyToNumValues/10.changelog",
    "out/_spark_metadata/9.compact",
    "out/part-00011-c000.parquet",
)
ADDED = (
    "checkpoint/spark/offsets/10",
    "checkpoint/spark/offsets/.10.crc",
    "checkpoint/spark/state/0/0/11.zip",
    "checkpoint/spark/state/0/0/.11.zip.crc",
    "checkpoint/spark/state/0/1/11.zip",
    "checkpoint/spark/state/1/0/left-keyToNumValues/11_9c0d.zip",
    "checkpoint/spark/state/1/1/left-keyToNumValues/11.changelog",
    "checkpoint/spark/commits/10",
    "checkpoint/spark/commits/.10.crc",
    "out/_spark_metadata/10",
    "out/_spark_metadata/.10.crc",
    "checkpoint/spark/offsets/11",
    "checkpoint/spark/state/0/1/12.changelog",
)
"""In the order in which they come into being; the last two are of a first batch that failed."""


def files_below(root: ExchangePath) -> set[str]:
    place = locate(root)
    place.forget_listings()
    return {place.at(path).relative_to(place) for path in map(str, place.fs.find(place.path))}


@pytest.mark.parametrize("written", range(len(ADDED) + 1))
def test_whatever_was_written_of_it_is_undone_and_nothing_else(job: JobFolder, written: int) -> None:
    root = job.root
    for name in (*BEFORE, *ADDED[:written]):
        write_atomic(root / name, b"x")
    begin_repartitioning(root / "checkpoint", BEGUN)
    undo_repartitioning(root / "checkpoint", root / "out", BEGUN)
    assert files_below(root) == set(BEFORE)


def test_it_is_whole_once_the_log_of_the_sink_has_its_batch(job: JobFolder) -> None:
    sink = job.root / "out"
    assert not is_whole(BEGUN, sink)
    write_atomic(sink / "_spark_metadata/10", b"v1")
    assert is_whole(BEGUN, sink)


def test_it_is_known_until_it_is_forgotten(job: JobFolder) -> None:
    assert read_repartitioning(job.root) is None
    begin_repartitioning(job.root, BEGUN)
    assert read_repartitioning(job.root) == BEGUN
    forget_repartitioning(job.root)
    forget_repartitioning(job.root)
    assert read_repartitioning(job.root) is None


def test_one_that_was_altered_is_refused(job: JobFolder) -> None:
    begin_repartitioning(job.root, BEGUN)
    write_atomic(job.root / "_airflow_abs/repartitioning.json", b"{}")
    with pytest.raises(DamagedFileError, match="do not end in a checksum"):
        read_repartitioning(job.root)
