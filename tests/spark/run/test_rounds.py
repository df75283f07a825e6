"""Under which number a round runs; that rounds end well on real Spark is in tests/faults."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from airflow_abs.exchange.paths import JobFolder, uri_for_spark
from airflow_abs.exchange.records.manifest import Manifest
from airflow_abs.exchange.records.tries import TryRecord
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.spark.errors import SourceChangedError
from airflow_abs.spark.run.rounds import check_copy, describe_inputs, number_to_start


def stored(attempt: int, inputs: str) -> TryRecord:
    return TryRecord(attempt, "decision", attempt, inputs, "running", "", 0.0)


@pytest.mark.parametrize(
    ("attempt", "before", "number"),
    [
        (1, stored(1, ""), 1),  # nothing was started yet
        (1, stored(1, "new"), 1),  # somebody started it with the same inputs: attach to that
        (1, stored(1, "old"), 1001),  # what runs under 1 may have read what was lost since
        (1001, stored(1001, "old"), 1002),
        (1001, stored(1, "old"), 1001),  # the next round has a number of its own already
    ],
)
def test_an_attempt_that_read_other_inputs_starts_under_the_next_number(
    attempt: int, before: TryRecord, number: int
) -> None:
    assert number_to_start(attempt, "new", stored=before) == number


def test_a_producer_that_ran_again_makes_other_inputs() -> None:
    def orders(attempt: int) -> Manifest:
        return Manifest("orders", 0, attempt, "decision", 1.0, {})

    assert describe_inputs({"orders": [orders(1)]}) == describe_inputs({"orders": [orders(1)]})
    assert describe_inputs({"orders": [orders(1)]}) != describe_inputs({"orders": [orders(1001)]})


@pytest.mark.parametrize(("left", "said"), [(b"", "has 0 bytes, had 4"), (None, "is gone")])
def test_a_copy_of_a_tables_rows_that_is_another_one_is_not_taken_for_them(
    tmp_path: Path, left: bytes | None, said: str
) -> None:
    folder = JobFolder(tmp_path / "exchange", "dag", "run", "job")
    copied = folder.landed_path("t", "k") / "part-0.parquet"
    copied.parent.mkdir(parents=True)  # type: ignore[attr-defined]
    copied.write_bytes(b"four")
    files = (SourceFile(uri_for_spark(copied), 4), SourceFile("file:///lake/t/part-0.parquet", 4))
    asyncio.run(check_copy("PostgresTable w.t", files, folder.root))
    if left is None:
        copied.unlink()
    else:
        copied.write_bytes(left)
    with pytest.raises(
        SourceChangedError, match=rf"source PostgresTable w\.t: .*part-0.parquet {said}: this is a copy"
    ):
        asyncio.run(check_copy("PostgresTable w.t", files, folder.root))
