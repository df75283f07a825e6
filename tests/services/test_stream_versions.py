"""A stream that is looked at, handed over to another version of its DAG, drained and stopped, in a real Airflow."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.plugins.pages import texts, wait_for
from tests.services.airflow_pages import open_tab
from tests.services.test_stream import published, story
from tests.services.watched_run import WatchedRun
from tests.spark_events import QUERY_ENDED as ENDED
from tests.spark_events import QUERY_STARTED as STARTED
from tests.task_instances import clear_task, wait_for_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark, pytest.mark.timeout(1800)]

DAG, TASK = "stream_versions", "versioned"
SOURCE = """
import pendulum
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow_abs import AdaptiveSparkStream, Files


def changed(numbers):
    from pyspark.sql import functions as sf

    dated = numbers.withColumn("at", sf.timestamp_seconds(sf.col("number") + 1_000_000)).withWatermark("at", "1 hour")
    return dated.dropDuplicates({keys}).select((sf.col("number") * {factor}).alias("number"))


with DAG("stream_versions", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")):
    stream = AdaptiveSparkStream(
        task_id="versioned",
        source=Files("{root}/data/versions", schema="number BIGINT"),
        transform=changed,
        sink=Files("{root}/mart/versions", mode="append"),
        checkpoint="file://{root}/mart/checkpoints/versions",
        spark_conf={{"spark.sql.shuffle.partitions": 2}},
    )
    stream >> EmptyOperator(task_id="after")
"""


class Versions:
    """The DAG file, the source and the sink of one stream."""

    def __init__(self, airflow: AirflowServices, root: Path) -> None:
        self.airflow, self.root = airflow, root
        self.checkpoint = f"file://{root}/mart/checkpoints/versions"
        self.dag_file = root / "dags" / "stream_versions.py"
        (root / "data" / "versions").mkdir()

    def write(self, keys: str, factor: int) -> None:
        self.dag_file.write_text(SOURCE.format(keys=keys, factor=factor, root=self.root))

    def deliver(self, number: int) -> None:
        place = self.root / "data" / "versions" / f"{number}.parquet"
        duckdb.sql(f"COPY (SELECT {number}::BIGINT AS number) TO '{place}.new' (FORMAT parquet)")
        place.with_suffix(".parquet.new").rename(place)

    def command(self, action: str, *options: str) -> tuple[int, str]:
        """`airflow-abs stream`, in a process of its own."""
        command = [sys.executable, "-m", "airflow_abs.cli.main", "stream", action, self.checkpoint, *options]
        done = subprocess.run(
            command, env=self.airflow.env, check=False, capture_output=True, text=True, timeout=SECONDS
        )
        return done.returncode, done.stdout + done.stderr

    def check(self) -> tuple[int, str]:
        return self.command("check", "--dag-file", str(self.dag_file))

    def await_rows(self, *numbers: int) -> None:
        sink = self.root / "mart" / "versions"
        wait_until(lambda: published(sink) == sorted(numbers), seen=lambda: published(sink))

    def story(self) -> list[str]:
        return story(self.root / "spark-events", TASK)


def test_a_stream_is_checked_handed_over_drained_and_stopped_and_its_page_tells_it(
    browser: Any, airflow: AirflowServices, folder: Path
) -> None:
    stream = Versions(airflow, folder)
    stream.write('["number", "at"]', 2)
    stream.deliver(1)
    airflow.api.wait_for_dag(DAG, SECONDS)
    run_id = airflow.api.trigger_run(DAG, datetime(2026, 6, 1, tzinfo=UTC))

    stream.await_rows(2)
    executing = f"{DAG}/{run_id}/{TASK}: Executing"
    wait_until(lambda: executing in stream.command("status")[1], seen=lambda: stream.command("status"))
    assert stream.command("status")[0] == 0
    open_tab(browser, WatchedRun(airflow, DAG, run_id))
    assert texts(browser, ".stream h2") == [f"{TASK}Executing"]

    stream.write('["number"]', 3)  # whose state is another one
    status, told = stream.check()
    assert status == 1, told
    assert (
        "the state of operator 0, a deduplication, has the key (number BIGINT), and in the checkpoint (number B" in told
    )
    assert stream.story() == [STARTED]  # it runs on
    stream.write('["number", "at"]', 3)
    status, told = stream.check()
    assert (status, told.splitlines()[-1]) == (0, f"stream 'versioned' can resume from {stream.checkpoint}")
    assert stream.story() == [STARTED]
    clear_task(airflow.api, DAG, run_id, TASK)
    wait_until(lambda: stream.story() == [STARTED, ENDED, STARTED], seen=stream.story)
    stream.deliver(2)
    stream.await_rows(2, 6)

    status, told = stream.command("drain")
    assert status == 0, told
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "success"
    assert stream.story() == [STARTED, ENDED, STARTED, ENDED]
    assert stream.command("status")[0] == 1
    open_tab(browser, WatchedRun(airflow, DAG, run_id))
    wait_for(browser, "document.querySelector('.stream h2')?.innerText.includes('Finished')")
    states = {each.task_id: each.state for each in airflow.api.task_instances(DAG, run_id)}
    assert states == {TASK: "success", "after": "success"}

    clear_task(airflow.api, DAG, run_id, TASK)
    stream.deliver(3)
    stream.await_rows(2, 6, 9)
    status, told = stream.command("stop")
    assert status == 0, told
    wait_for_task(airflow.api, DAG, run_id, TASK, {"failed"}, SECONDS)
    assert airflow.api.wait_for_run(DAG, run_id, SECONDS) == "success"  # by `after`, which was not cleared

    stream.write('["number"]', 3)
    clear_task(airflow.api, DAG, run_id, TASK)
    wait_for_task(airflow.api, DAG, run_id, TASK, {"failed"}, SECONDS)
    assert "as it is declared now it cannot resume from its checkpoint" in airflow.api.task_error(DAG, run_id, TASK)
    assert stream.story() == [STARTED, ENDED] * 3
