"""Without a worker `plan` and a stream say what they wait for and end in time; a worker that comes late is enough."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.spark.connect.endpoint import ConnectEndpoint, not_told
from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.errors import ResourcesError
from airflow_abs.spark.planning import check_shared
from airflow_abs.spark.session_capacity import await_executors, read_slots
from tests.spark.stream.streams import Place
from tests.standalone import Standalone, worker_started

pytestmark = [pytest.mark.spark]

SECONDS = 2.0
LATE_SECONDS = 120.0
NO_EXECUTOR = "and the cluster has at most 2 cores, as Spark says of one without executors; give the server executors"


def explained(session: Any) -> list[str]:
    """Every request that asks for an analysis, or runs a plan, from now on."""
    sent: list[str] = []
    client = session.client
    for name in ("_analyze", "_execute_and_fetch"):
        call: Callable[..., Any] = getattr(client, name)
        setattr(client, name, lambda *args, call=call, name=name, **more: (sent.append(name), call(*args, **more))[1])
    return sent


@pytest.mark.sample
def test_before_it_reads_schemas_plan_ends_without_an_executor(
    endpoint: ConnectEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    with open_session(endpoint) as session, caplog.at_level(logging.WARNING), pytest.raises(ResourcesError) as refused:
        await_executors(session, "plan", SECONDS)
    said = str(refused.value)
    assert said.startswith("Spark ran nothing for ")
    assert f"s: plan wants one Spark task before it reads schemas, {NO_EXECUTOR}" in said
    assert caplog.messages[0].startswith("waiting for resources: plan wants one Spark task before it reads schemas; ")


def test_the_probe_of_the_exchange_ends_without_an_executor(endpoint: ConnectEndpoint, tmp_path: Path) -> None:
    with (
        open_session(endpoint) as session,
        pytest.raises(ResourcesError, match=r"Spark ran nothing for .* s: plan wants one Spark task, which writes"),
    ):
        check_shared(session, JobFolder(tmp_path, "dag", "run", "job"), SECONDS)


def test_the_words_of_the_cluster_manager_are_in_log_and_error(
    endpoint: ConnectEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    words = "the cluster manager says: 0 executors run, 4 wait: exceeded quota: spark"
    with open_session(endpoint) as session, caplog.at_level(logging.WARNING), pytest.raises(ResourcesError) as refused:
        await_executors(session, "plan", SECONDS, lambda: Executors(0, 4, "exceeded quota: spark"))
    assert f"before it reads schemas, and {words}; give the server executors" in str(refused.value)
    assert words in caplog.messages[0]


def test_one_executor_that_its_manager_counts_is_enough_to_wait_for_no_task(session: Any) -> None:
    """Of a server with 2 cores."""
    sent = explained(session)
    assert await_executors(session, "plan", SECONDS, lambda: Executors(1)) == 2
    assert sent == ["_analyze"]


def test_a_server_with_more_cores_is_asked_one_question(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_abs.spark.session_capacity.LEAST_PARALLELISM", 1)
    sent = explained(session)
    assert await_executors(session, "plan", SECONDS, not_told) == read_slots(session)
    assert sent == ["_analyze", "_analyze"]


def parquet(folder: Path) -> str:
    folder.mkdir()
    duckdb.sql(f"COPY (SELECT i AS id FROM range(9) t(i)) TO '{folder}/rows.parquet' (FORMAT parquet)")
    return str(folder)


def ended_stream(endpoint: ConnectEndpoint, root: Path, seconds: float) -> Any:
    """With its schema declared, so that the triggerer is the first to want a Spark task."""
    place = Place(endpoint, root, resource_timeout=seconds)
    place.deliver(0)
    plan = place.compile()

    async def supervise() -> Any:
        async with place.supervised(plan) as stream, asyncio.timeout(LATE_SECONDS + 60):
            return await stream.run()

    return asyncio.run(supervise())


def test_a_stream_ends_without_an_executor(endpoint: ConnectEndpoint, tmp_path: Path) -> None:
    ended = ended_stream(endpoint, tmp_path, SECONDS)
    assert ended.status == "FAILED"
    assert ended.reason == (
        "fewer than 1 slot until the resource timeout: the cluster has at most 2 cores, as Spark says of one without "
        "executors; give the server executors, or raise resource_timeout"
    )


def test_a_stream_quotes_the_cluster_manager(endpoint: ConnectEndpoint, tmp_path: Path) -> None:
    told = replace(endpoint, executors=lambda: Executors(0, 2, "its queue is full"), user_id="told")
    reason = ended_stream(told, tmp_path, SECONDS).reason
    assert "resource timeout: the cluster manager says: 0 executors run, 2 wait: its queue is full; give" in reason


def test_with_a_worker_that_comes_late_schemas_are_read_and_a_stream_runs(
    endpoint: ConnectEndpoint, cluster: Standalone, tmp_path: Path
) -> None:
    """Last: the cluster has a worker after it."""
    waits, over, streamed = threading.Event(), threading.Event(), list[Any]()

    class Listening(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("waiting for resources: plan"):
                waits.set()

    def stream() -> None:
        (tmp_path / "stream").mkdir()
        streamed.append(ended_stream(endpoint, tmp_path / "stream", LATE_SECONDS))

    def work() -> None:  # the worker ends with the thread that starts it
        assert waits.wait(LATE_SECONDS)
        with worker_started(cluster, tmp_path / "worker"):
            assert over.wait(2 * LATE_SECONDS)

    path, handler = parquet(tmp_path / "rows"), Listening()
    log = logging.getLogger("airflow_abs.spark.session_capacity")
    threads = [threading.Thread(target=each) for each in (stream, work)]
    with open_session(endpoint) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr("airflow_abs.spark.session_capacity.seconds_between_looks", lambda timeout: 0.5)
        log.addHandler(handler)
        for thread in threads:
            thread.start()
        try:
            slots = await_executors(session, "plan", LATE_SECONDS)
            assert session.read.parquet(path).schema.names == ["id"]
        finally:
            log.removeHandler(handler)
            threads[0].join()
            over.set()
            threads[1].join()
    assert slots == 3
    assert [each.status for each in streamed] == ["FINISHED"]
