"""A stream in a real Airflow: goes on without its triggerer, stops with its task, resumes, on another server too."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.streaming.life_record import read_life
from airflow_abs.spark.server.embedded import embedded_status
from tests.spark_events import QUERY_ENDED as ENDED
from tests.spark_events import QUERY_STARTED as STARTED
from tests.spark_events import query_events
from tests.task_instances import clear_task, mark_task, wait_for_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(1800)]


def deliver(folder: Path, number: int) -> None:
    lake = folder / "data" / "stream"
    lake.mkdir(exist_ok=True)
    hidden = lake / f".{number}"
    duckdb.sql(f"COPY (SELECT {number * 10} + range AS number FROM range(10)) TO '{hidden}' (FORMAT parquet)")
    hidden.rename(lake / f"{number:03d}.parquet")


def published(sink: Path) -> list[int]:
    """The rows of the files that Spark's log of the sink names."""
    entries = [
        json.loads(line)
        for log in sink.glob("_spark_metadata/[0-9]*")
        if log.suffix != ".compact"
        for line in log.read_text().splitlines()[1:]
    ]
    files = [entry["path"].removeprefix("file://") for entry in entries if entry["size"]]
    if not files:
        return []
    return [row[0] for row in duckdb.sql(f"SELECT number FROM read_parquet({files}) ORDER BY 1").fetchall()]


def story(event_logs: Path, task: str) -> list[str]:
    """What became of the queries of a task, in order, as the Spark server tells it."""
    events = query_events(event_logs)
    # the id is that of the checkpoint, and so the same for all of them
    ids = {event["id"] for event in events if (event.get("name") or "").startswith(f"{task} ")}
    assert len(ids) <= 1
    return [event["Event"] for event in events if event["id"] in ids]


def kill_spark(airflow: AirflowServices) -> None:
    killed = embedded_status(airflow.spark_folder).jvm_pid
    assert killed is not None
    os.kill(killed, signal.SIGKILL)


@pytest.mark.sample
def test_a_stream_outlives_its_triggerer_and_resumes_after_it_was_cleared_and_after_the_end_of_its_server(
    airflow: AirflowServices, folder: Path
) -> None:
    sink = folder / "mart" / "stream"
    logs = folder / "spark-events"

    def has(files: int) -> Callable[[], bool]:
        return lambda: published(sink) == [2 * number for number in range(10 * files)]

    deliver(folder, 0)
    airflow.api.wait_for_dag("stream", SECONDS)
    run_id = airflow.api.trigger_run("stream", datetime(2026, 6, 1, tzinfo=UTC))
    wait_until(has(1))
    airflow.kill("triggerer")
    deliver(folder, 1)
    wait_until(has(2))  # nobody supervises it, and it runs
    airflow.start("triggerer")
    wait_until(lambda: "found running" in airflow.api.task_log("stream", run_id, "doubled"))
    deliver(folder, 2)
    wait_until(has(3))
    assert story(logs, "doubled") == [STARTED]
    mark_task(airflow.api, "stream", run_id, "doubled", "failed")
    assert airflow.api.wait_for_run("stream", run_id, SECONDS) == "failed"
    wait_until(lambda: story(logs, "doubled") == [STARTED, ENDED])
    clear_task(airflow.api, "stream", run_id, "doubled")
    deliver(folder, 3)
    wait_until(has(4))
    assert story(logs, "doubled") == [STARTED, ENDED, STARTED]
    kill_spark(airflow)
    deliver(folder, 4)
    wait_until(has(5))
    assert story(logs, "doubled") == [STARTED, ENDED, STARTED, STARTED]  # what is killed does not say so
    mark_task(airflow.api, "stream", run_id, "doubled", "success")
    assert airflow.api.wait_for_run("stream", run_id, SECONDS) == "success"
    wait_until(
        lambda: story(logs, "doubled") == [STARTED, ENDED, STARTED, STARTED, ENDED], seen=lambda: story(logs, "doubled")
    )


def test_a_stream_that_is_scheduled_reads_what_is_there_and_ends(airflow: AirflowServices, folder: Path) -> None:
    airflow.api.wait_for_dag("stream_now", SECONDS)
    files = 0
    for hour in range(2):
        deliver(folder, 10 + hour)
        files = len(list((folder / "data" / "stream").glob("*.parquet")))
        run_id = airflow.api.trigger_run("stream_now", datetime(2026, 6, 1, hour, tzinfo=UTC))
        wait_for_task(airflow.api, "stream_now", run_id, "passed", {"success"}, SECONDS)
        assert len(published(folder / "mart" / "stream_now")) == 10 * files
    everything = duckdb.sql(f"SELECT number FROM '{folder}/data/stream/*.parquet' ORDER BY 1").fetchall()
    assert published(folder / "mart" / "stream_now") == [row[0] for row in everything]


def test_a_stream_of_a_bounded_source_runs_as_a_batch_and_says_so(airflow: AirflowServices, folder: Path) -> None:
    airflow.api.wait_for_dag("stream_bounded", SECONDS)
    deliver(folder, 20)
    run_id = airflow.api.trigger_run("stream_bounded", datetime(2026, 6, 1, tzinfo=UTC))
    wait_for_task(airflow.api, "stream_bounded", run_id, "all", {"success"}, SECONDS)
    everything = duckdb.sql(f"SELECT number FROM '{folder}/data/stream/*.parquet' ORDER BY 1").fetchall()
    assert published(folder / "mart" / "stream_bounded") == [row[0] for row in everything]
    told = airflow.api.task_log("stream_bounded", run_id, "all")
    assert "it runs as a batch, which ends: its source is bounded (bounded=True)" in told
    life = read_life(folder / "mart" / "checkpoints" / "stream_bounded")
    assert life is not None
    assert life.bound == "bounded=True"
