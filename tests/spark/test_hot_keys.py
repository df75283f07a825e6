"""The key behind a hot subpartition, looked for on real Spark beside the subtask that reads it, and after the run."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.graph.job_graph import JobEdge, JobVertex
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.hot_key import HotKey
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.results.hot_key import read_hot_key
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.exchange.sources.files import Files
from airflow_abs.spark import hot_keys as module
from airflow_abs.spark.connect.connection import open_connection
from airflow_abs.spark.hot_keys import find_unseen_hot_keys, searching_hot_key
from airflow_abs.spark.run.attempt import SubtaskAttempt
from airflow_abs.spark.run.subtask_spec import SubtaskSpec
from tests.job_runner import JobRun, plan_run, program_of

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

SECONDS = 60.0
HOT_SHARE = 40  # percent of the sales, as in the workload hot_key of the benchmarks


def totals(sales: Any) -> Any:
    from pyspark.sql import functions as sf

    # a deviation does not merge: partial sums of a hot key would be one row of each producer
    deviation = sf.stddev("amount").alias("deviation")
    return sales.groupBy("customer id", "day").agg(sf.sum("amount").alias("amount"), deviation)


def planned(server: ConnectEndpoint, folder: Path, hot: str, **options: Any) -> JobRun:
    """20,000 sales in 4 files, of which one key of two columns has 40 %; its first column is `hot`."""
    (folder / "sales").mkdir()
    for part in range(4):
        query = f"""SELECT CASE WHEN range % 100 < {HOT_SHARE} THEN {hot} ELSE md5(range::VARCHAR) END AS "customer id",
            CASE WHEN range % 100 < {HOT_SHARE} THEN DATE '2026-01-01' ELSE DATE '2026-01-01' + (range % 90)::INT END
            AS day, range::DOUBLE AS amount FROM range({part * 5000}, {(part + 1) * 5000})"""
        duckdb.sql(f"COPY ({query}) TO '{folder}/sales/{part}.parquet'")
    return plan_run(
        server,
        folder / "exchange",
        [JobVertex("sales", has_source=True), JobVertex("totals", has_sink=True)],
        [JobEdge("sales", "totals", "sales", Partitioning.HASH, ("customer id", "day"))],
        [
            program_of("sales", None, {}, Files(str(folder / "sales"))),
            program_of("totals", totals, {}, sink=Files(str(folder / "mart"))),
        ],
        **{"target_bytes": 30 * 1024, "hot_keys": True, **options},
    )


def decided(run: JobRun) -> tuple[SubtaskSpec, SubtaskAttempt]:
    """The subtask that reads the hot subpartition."""
    asyncio.run(run.run_region("sales"))
    stored = run.decide("totals")
    attempts = [SubtaskAttempt("totals", index, 1, stored.digest) for index in range(stored.decision.parallelism)]
    specs = [SubtaskSpec.load(run.folder, attempt) for attempt in attempts]
    (found,) = [pair for pair in zip(specs, attempts, strict=True) if pair[0].reads.hottest is not None]
    return found


def search(run: JobRun, *, wait: bool = True) -> HotKey | None:
    """What is found while something takes long enough (or with `wait` False, no time at all)."""
    spec, attempt = decided(run)

    async def look() -> HotKey | None:
        async with open_connection(run.endpoint) as connection, searching_hot_key(connection, spec, attempt):
            deadline = time.monotonic() + SECONDS
            while wait and (found := read_hot_key(run.folder, "totals", attempt.decision)) is None:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)
            return found if wait else None

    return asyncio.run(look())


@pytest.mark.sample
def test_the_most_frequent_key_is_found_and_told_with_what_to_do(
    connect_server: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = planned(connect_server, tmp_path, "repeat('Smith & ', 20)")
    with caplog.at_level(logging.WARNING):
        found = search(run)
    assert found is not None
    assert found.columns == ("customer id", "day")
    assert found.values == (("Smith & " * 20)[:80], "2026-01-01")  # of a long value its beginning
    assert found.rows == 8000  # of 20,000, of which all those of the key are in one subpartition
    assert 0.9 < found.share < 1
    (told,) = [record.getMessage() for record in caplog.records if "sampled rows" in record.getMessage()]
    assert told.startswith(f"totals: subpartition {found.subpartition} of sales holds ")
    assert "aggregate by customer id, day and another column first" in told


def test_a_key_of_nulls_is_told_as_null(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    found = search(planned(connect_server, tmp_path, "NULL"))
    assert found is not None
    assert found.key == "customer id = NULL, day = 2026-01-01"


def test_nothing_is_looked_for_where_it_is_switched_off(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    run = planned(connect_server, tmp_path, "'Smith'", hot_keys=False)
    spec, attempt = decided(run)

    async def look() -> int:
        async with open_connection(run.endpoint) as connection, searching_hot_key(connection, spec, attempt):
            return len(asyncio.all_tasks())

    assert asyncio.run(look()) == 1


def ended(run: JobRun) -> str:
    """The run up to its end, its hot subtask done before anything was found; the digest of its decision."""
    assert search(run, wait=False) is None
    digest = read_decision(run.folder, "totals").digest
    assert read_hot_key(run.folder, "totals", digest) is None
    return digest


def find_after(run: JobRun) -> HotKey | None:
    """As `release` does."""
    digest = read_decision(run.folder, "totals").digest
    asyncio.run(find_unseen_hot_keys(run.endpoint, read_decisions(run.folder), 1))
    return read_hot_key(run.folder, "totals", digest)


@pytest.mark.sample
def test_the_key_of_a_subtask_that_was_done_first_is_found_after_the_run(
    connect_server: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = planned(connect_server, tmp_path, "'Smith'")
    ended(run)
    with caplog.at_level(logging.WARNING):
        found = find_after(run)
    assert found is not None
    assert found.values == ("Smith", "2026-01-01")
    assert found.rows == 8000
    assert [record.getMessage() for record in caplog.records if "sampled rows" in record.getMessage()]
    assert read_decisions(run.folder).region("totals").hot_key == found  # what the page and `explain` show


def test_after_the_run_nothing_is_looked_for_that_is_known_or_not_wanted(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, hot_keys in (("known", True), ("unwanted", False)):
        (tmp_path / name).mkdir()
        run = planned(connect_server, tmp_path / name, "'Smith'", hot_keys=hot_keys)
        ended(run)
        assert (find_after(run) is not None) is hot_keys
        with monkeypatch.context() as patched:
            patched.setattr(module, "open_connection", None)
            asyncio.run(find_unseen_hot_keys(run.endpoint, read_decisions(run.folder), 2))


def test_after_the_run_a_search_without_rows_or_time_is_given_up(
    connect_server: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(connect_server, tmp_path, "'Smith'")
    ended(run)
    with caplog.at_level(logging.INFO):
        with monkeypatch.context() as patched:
            patched.setattr(module, "SECONDS", 0.0)
            assert find_after(run) is None
        release_job(run.folder)
        assert find_after(run) is None
    told = [record.getMessage() for record in caplog.records]
    assert "gave up the search for hot keys after 0 s" in told
    assert any("of totals.sales was not found: " in each for each in told)


def test_a_search_that_fails_is_a_line_in_the_log_and_no_more(
    connect_server: ConnectEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = planned(connect_server, tmp_path, "'Smith'")
    monkeypatch.setattr("airflow_abs.spark.hot_keys._COUNT", "no such column) (")
    with caplog.at_level(logging.INFO):
        asyncio.run(run.run_region("sales"))
        asyncio.run(run.run_region("totals"))
    run.commit()
    written = f"SELECT count(*), sum(amount) FROM '{tmp_path}/mart/*.parquet'"
    assert duckdb.sql(written).fetchall() == [(12001, 199_990_000.0)]
    told = [record.getMessage() for record in caplog.records if "was not found" in record.getMessage()]
    assert len(told) <= 1  # none if its subtask was done before the error came
