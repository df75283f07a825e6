from __future__ import annotations

import logging

import pytest

from airflow_abs.exchange.manifest import Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.plan import PlannedStep
from airflow_abs.spark import progress as module
from airflow_abs.spark.operations import Progress
from airflow_abs.spark.progress import ProgressLog, describe_outcome, describe_progress

STEP = PlannedStep("orders.604973ca", "{}", "parquet", {}, 4, shuffles=False)


def progress(done: int, total: int, running: int = 1) -> Progress:
    return Progress(done, total, running, stages_done=0, stages_total=2, input_bytes=0)


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (progress(3, 8), "orders: 3 of 8 Spark tasks, stage 1 of 2"),
        (progress(3, 8, running=0), "orders: 3 of 8 Spark tasks, stage 1 of 2, waiting for a free core"),
        (progress(0, 0, running=0), "orders: waiting for Spark to plan it"),
    ],
)
def test_a_line_says_how_far_it_is_or_what_it_waits_for(seen: Progress, line: str) -> None:
    assert describe_progress("orders", seen) == line


def test_a_line_is_written_when_something_changed_and_at_most_every_few_seconds(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    caplog.set_level(logging.INFO, logger="airflow_abs.spark.progress")
    listener = ProgressLog(5.0, _started=100.0)
    for seconds, done in [(0, 0), (1, 1), (4, 2), (6, 3), (20, 3), (26, 4)]:
        now[0] = 100.0 + seconds
        listener(STEP, progress(done, 8))
    # Second 0: the first; 1 and 4: too soon; 6: changed; 20: the same as before; 26: changed.
    assert [record.message.rpartition(", ")[2] for record in caplog.records] == ["0 s", "6 s", "26 s"]


def test_the_summary_tells_rows_bytes_files_seconds_and_attempt() -> None:
    file = ResultFile("a", 2048, 1200, 0, (2048,))
    manifest = Manifest("orders", 3, 2, "d", 3.42, {"orders.x": ResultManifest("parquet", "{}", 1, (file, file))})
    assert describe_outcome(manifest) == "orders[3]: wrote 2,400 rows, 4.0 KiB in 2 files, 3.4 s, attempt 2"
