"""A try that ended without a word is gone on with; one that failed is not; memory failures split."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_abs.exchange.errors import StaleManifestError
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.manifest import read_manifest
from airflow_abs.exchange.records.tries import TryRecord, end_try, read_try, write_try
from airflow_abs.spark.connect.connection import Connection, open_connection
from airflow_abs.spark.connect.execute import execute_operation
from airflow_abs.spark.connect.operations import Operation
from airflow_abs.spark.errors import SubtaskOutOfMemoryError, UnsplittableMemoryError, UserCodeError
from airflow_abs.spark.run.execution import AttemptExecution
from airflow_abs.spark.run.subtask import SubtaskAttempt, interrupt_subtask, run_subtask
from tests.faults.pipeline import answer, make_lake, output, plan_revenue
from tests.job_runner import JobRun
from tests.waiting import SECONDS

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_lake(tmp_path_factory.mktemp("lake"))


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """Every request to execute an operation; the same one sent again has the same id."""
    sent: list[Operation] = []

    async def recording(connection: Connection, operation: Operation, **options: Any) -> Any:
        sent.append(operation)
        return await execute_operation(connection, operation, **options)

    monkeypatch.setattr("airflow_abs.spark.run.execution.execute_operation", recording)
    return sent


def run_try(run: JobRun, region: str, number: int, index: int = 0) -> Any:
    """One of Airflow's tries."""
    attempt = SubtaskAttempt(region, index, number, read_decision(run.folder, region).digest)

    async def run_it() -> Any:
        async with open_connection(run.endpoint) as connection:
            return await run_subtask(connection, run.folder, attempt, Path)

    return asyncio.run(run_it())


def run_try_until_killed(run: JobRun, region: str, number: int) -> None:
    """A try that ends as by a kill as soon as Spark says that its operation runs."""
    attempt = SubtaskAttempt(region, 0, number, read_decision(run.folder, region).digest)

    async def run_it() -> None:
        async with open_connection(run.endpoint) as connection:
            trying: asyncio.Task[Any] = asyncio.create_task(
                run_subtask(connection, run.folder, attempt, Path, on_progress=lambda *_progress: trying.cancel())
            )
            with pytest.raises(asyncio.CancelledError):  # a try that never runs is a TimeoutError
                async with asyncio.timeout(SECONDS):
                    await trying

    asyncio.run(run_it())


def slowly(enriched: Any) -> Any:
    """A second or more of one core, whatever the data."""
    from pyspark.sql import functions as sf

    waste = sf.expr("aggregate(sequence(1, 1000000), 0L, (sum, n) -> sum + n % 7) > 0")
    small = enriched.groupBy("region").agg(sf.sum("amount").alias("revenue"), sf.count("*").alias("orders"))
    return small.where(waste)


def started(server: ConnectEndpoint, lake: Path, folder: Path, **options: Any) -> JobRun:
    run = plan_revenue(server, lake, folder, **options)
    for region in ("orders", "customers", "enriched"):
        asyncio.run(run.run_region(region))
    run.decide("by_region")
    return run


@pytest.mark.sample
def test_a_try_whose_worker_was_killed_is_gone_on_with_and_submits_nothing_twice(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, submitted: list[Operation]
) -> None:
    run = started(connect_server, lake, tmp_path, transforms={"by_region": slowly})
    submitted.clear()
    run_try_until_killed(run, "by_region", 1)
    assert len(submitted) == 1
    manifest = run_try(run, "by_region", 2)
    assert [operation.operation_id for operation in submitted] == [submitted[0].operation_id] * 2
    assert submitted[0].plan == submitted[1].plan
    assert manifest.attempt == 1
    record = read_try(run.folder, "by_region", 0, 2)
    assert record is not None
    assert (record.attempt, record.state) == (1, "committed")
    run.commit()
    assert output(tmp_path) == answer(lake)


def test_a_try_that_failed_is_followed_by_an_attempt_of_its_own(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = started(connect_server, lake, tmp_path)
    digest = read_decision(run.folder, "by_region").digest
    failed = TryRecord(1, digest, 1, "", "failed", "TransientSparkError", time.time())
    write_try(run.folder, "by_region", 0, failed)
    assert run_try(run, "by_region", 2).attempt == 2


def test_a_try_that_somebody_interrupted_is_not_gone_on_with(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = started(connect_server, lake, tmp_path, transforms={"by_region": slowly})
    digest = read_decision(run.folder, "by_region").digest
    run_try_until_killed(run, "by_region", 1)

    async def interrupt() -> None:
        async with open_connection(run.endpoint) as connection:
            await interrupt_subtask(connection, run.folder, SubtaskAttempt("by_region", 0, 1, digest))

    asyncio.run(interrupt())
    record = read_try(run.folder, "by_region", 0, 1)
    assert record is not None
    assert (record.state, record.error) == ("failed", "OperationCancelledError")
    assert run_try(run, "by_region", 2).attempt == 2


def test_what_is_left_of_a_killed_try_on_another_server_is_nothing_and_a_new_attempt_starts(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    """As after a restart of the server: the session of the first attempt was closed for good."""
    from airflow_abs.spark.connect.protocol import protos

    run = started(connect_server, lake, tmp_path)
    digest = read_decision(run.folder, "by_region").digest
    first = SubtaskAttempt("by_region", 0, 1, digest)
    write_try(run.folder, "by_region", 0, TryRecord(1, digest, 1, "", "running", "", time.time()))

    async def close_for_good() -> None:
        from airflow_abs.spark.connect.operations import set_config

        async with open_connection(run.endpoint) as connection:
            await set_config(connection, first.session_id(run.folder), {})
            request = protos().ReleaseSessionRequest(
                session_id=first.session_id(run.folder),
                user_context=connection.user_context(),
                client_type="airflow_abs",
            )
            await connection.call("ReleaseSession", request)

    asyncio.run(close_for_good())
    assert run_try(run, "by_region", 2).attempt == 2


@pytest.mark.sample
def test_the_same_rows_come_out_in_pieces_under_one_manifest(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run = plan_revenue(connect_server, lake, tmp_path, enriched=1 + 1)
    for region in ("orders", "customers"):
        asyncio.run(run.run_region(region))
    stored = run.decide("enriched")
    for number in (1, 2):  # two failures: four pieces
        record = TryRecord(number, stored.digest, number, "", "failed", "SubtaskOutOfMemoryError", time.time())
        write_try(run.folder, "enriched", 0, record)
    pieces = run_try(run, "enriched", 3)
    whole = run_try(run, "enriched", 1, index=1)
    folders = {file.path.split("/")[3] for result in pieces.results.values() for file in result.files}
    assert folders == {"piece-0", "piece-1", "piece-2", "piece-3"}
    assert pieces.attempt == 3
    assert "out of memory 2 times before: running in 4 pieces" in caplog.text
    from airflow_abs.exchange.records.reports import report

    run.reports["enriched"] = [report(manifest, 2) for manifest in (pieces, whole)]
    asyncio.run(run.run_region("by_region"))
    run.commit()
    assert output(tmp_path) == answer(lake)


def greedy(orders: Any, customers: Any) -> Any:
    """Takes 24 KB for each row of a subtask at once: all 40,000 rows do not fit into the server, a few thousand do."""
    from pyspark.sql import functions as sf

    joined = orders.join(customers, "customer_id")
    waste = joined.agg(sf.expr("size(sequence(1L, count(1) * 6000)) AS waste"))
    return joined.crossJoin(waste).where("waste > 0").drop("waste")


def test_real_memory_that_runs_out_is_met_with_smaller_pieces(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = plan_revenue(
        connect_server,
        lake,
        tmp_path,
        enriched=2,
        transforms={"enriched": greedy},
        declared={"enriched": {"per_subtask": True}},
    )
    for region in ("orders", "customers"):
        asyncio.run(run.run_region(region))
    run.decide("enriched")
    manifests, failures = [], []
    for index in range(2):
        for number in range(1, 6):
            try:
                manifests.append(run_try(run, "enriched", number, index=index))
                break
            except SubtaskOutOfMemoryError:
                failures.append((index, number))
    assert [manifest.index for manifest in manifests] == [0, 1]
    assert failures
    assert manifests[0].attempt > 1
    from airflow_abs.exchange.records.reports import report

    run.reports["enriched"] = [report(manifest, 2) for manifest in manifests]
    asyncio.run(run.run_region("by_region"))
    run.commit()
    assert output(tmp_path) == answer(lake)


@pytest.mark.sample
def test_a_range_that_cannot_be_cut_fails_with_advice(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_revenue(connect_server, lake, tmp_path, enriched=1)
    for region in ("orders", "customers"):
        asyncio.run(run.run_region(region))
    stored = run.decide("enriched")
    write_try(run.folder, "enriched", 0, TryRecord(1, stored.digest, 1, "", "failed", "SubtaskOutOfMemoryError", 0.0))

    async def exhausted(self: AttemptExecution) -> None:
        assert self.work.settings()["spark.sql.autoBroadcastJoinThreshold"] == "-1"
        raise SubtaskOutOfMemoryError("Java heap space")

    monkeypatch.setattr(AttemptExecution, "run", exhausted)
    with pytest.raises(UnsplittableMemoryError) as caught:
        run_try(run, "enriched", 2)
    assert str(caught.value).splitlines()[0] == "Java heap space"
    assert "cannot be cut any further: its parallelism is set to 1" in str(caught.value)
    assert "raise max_parallelism" in str(caught.value)


def fails_at_run_time(orders: Any, customers: Any) -> Any:
    from pyspark.sql import functions as sf

    return orders.join(customers, "customer_id").where(sf.expr("amount / (order_id - order_id) > 0"))


@pytest.mark.sample
def test_a_users_error_says_the_users_words_first_and_then_where(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = plan_revenue(connect_server, lake, tmp_path, transforms={"enriched": fails_at_run_time})
    for region in ("orders", "customers"):
        asyncio.run(run.run_region(region))
    run.decide("enriched")
    with pytest.raises(UserCodeError) as caught:
        run_try(run, "enriched", 1, index=2)
    first, second, *_ = str(caught.value).splitlines()
    assert first.startswith("[DIVIDE_BY_ZERO] Division by zero.")
    assert second.startswith("  in enriched[2] of 3 (subpartitions [")
    assert second.endswith("KiB; vertex enriched), try 1")
    record = read_try(run.folder, "enriched", 2, 1)
    assert record is not None
    assert (record.state, record.error) == ("failed", "UserCodeError")


def test_a_producer_that_was_decided_anew_is_not_read_by_an_old_decision(
    connect_server: ConnectEndpoint, lake: Path, tmp_path: Path
) -> None:
    run = plan_revenue(connect_server, lake, tmp_path)
    for region in ("orders", "customers"):
        asyncio.run(run.run_region(region))
    run.decide("enriched")
    manifest = read_manifest(run.folder, "orders", 0)
    from airflow_abs.exchange.records.manifest import write_manifest

    write_manifest(run.folder, replace(manifest, decision="another"))
    with pytest.raises(StaleManifestError, match=r"orders\[0\] under decision"):
        run_try(run, "enriched", 1)


@pytest.mark.sample
def test_ending_a_try_is_what_the_next_one_sees(tmp_path: Path) -> None:
    from airflow_abs.exchange.paths import JobFolder
    from airflow_abs.exchange.records.tries import begin_try

    folder = JobFolder(tmp_path, "dag", "run", "job")
    first = begin_try(folder, "orders", 0, 1, decision="d", now=1.0)
    write_try(folder, "orders", 0, first)
    assert begin_try(folder, "orders", 0, 2, decision="d", now=2.0) == replace(first, number=2, changed=2.0)
    assert begin_try(folder, "orders", 0, 2, decision="other", now=2.0).attempt == 2
    end_try(folder, "orders", 0, first, "TransientSparkError", 3.0)
    assert begin_try(folder, "orders", 0, 2, decision="d", now=4.0).attempt == 2
