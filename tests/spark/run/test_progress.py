from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from typing import Any, cast

import pytest

from airflow_abs.exchange.records.manifest import Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.spark.connect.connection import Connection
from airflow_abs.spark.connect.execute import Progress, StageProgress
from airflow_abs.spark.run import progress as module
from airflow_abs.spark.run import progress_by_vertex
from airflow_abs.spark.run.progress import ProgressLog, describe_outcome, describe_progress
from airflow_abs.spark.run.progress_by_vertex import ProgressByVertex
from airflow_abs.spark.run.stage_order import Stage, StageOrder

STEP = PlannedStep("orders.604973ca", "{}", "parquet", {}, 4, shuffles=False)


def progress(done: int, total: int, running: int = 1) -> Progress:
    return Progress(done, total, running, stages_done=0, stages_total=2, input_bytes=0)


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (progress(3, 8), "orders: 3 of 8 Spark tasks, stage 1 of 2"),
        (progress(9, 8), "orders: 8 of 8 Spark tasks, stage 1 of 2"),
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
    caplog.set_level(logging.INFO, logger="airflow_abs.spark.run.progress")
    listener = ProgressLog(5.0, 600.0, _started=100.0)
    for seconds, done in [(0, 0), (1, 1), (4, 2), (6, 3), (20, 3), (26, 4)]:
        now[0] = 100.0 + seconds
        listener(STEP, progress(done, 8))
    # Second 0: the first; 1 and 4: too soon; 6: changed; 20: the same as before; 26: changed.
    assert [record.getMessage().rpartition(", ")[2] for record in caplog.records] == ["0 s", "6 s", "26 s"]


def test_a_line_tells_how_far_each_vertex_is_or_why_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="airflow_abs.spark.run.progress")
    listener = ProgressLog(0.0, 600.0)
    listener(STEP, replace(progress(3, 8), vertices={"customers": 1.0, "orders": 0.25}))
    listener(STEP, replace(progress(3, 8), unattributed="its plan has subqueries"))
    assert [record.getMessage().partition(" s ")[2] for record in caplog.records] == [
        "(customers 100 %, orders 25 %)",
        "(of no known vertex: its plan has subqueries)",
    ]


def test_shares_are_told_until_spark_changes_its_plan() -> None:
    order = StageOrder((Stage(frozenset({"orders"}), 0), Stage(frozenset({"by_region"}), 1)))
    told: list[Progress] = []
    listener = ProgressByVertex(Connection(cast("Any", None), None), "", STEP, no_plan, told.append, order)
    for stages in ([(1, 2)], [(2, 2), (1, 2), (0, 1)], [(2, 2)]):
        seen = tuple(StageProgress(number, *each) for number, each in enumerate(stages))
        listener(replace(progress(3, 8), stages=seen))
    assert [each.vertices for each in told] == [{"by_region": 0.0, "orders": 0.5}, {}, {}]
    assert [each.unattributed for each in told] == ["", *["Spark changed its plan while it ran"] * 2]


def no_plan() -> Any:
    raise AssertionError("nothing is explained here")


def test_an_error_of_the_explanation_is_no_error_of_the_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(progress_by_vertex, "_EXPLAIN_AFTER_SECONDS", 0.0)
    listener = ProgressByVertex(Connection(cast("Any", None), None), "", STEP, no_plan, lambda progress: None)

    async def work() -> None:
        async with asyncio.timeout(60), listener.explained():
            while len(asyncio.all_tasks()) > 1:  # the explanation, and this
                await asyncio.sleep(0.01)

    asyncio.run(work())
    assert caplog.messages == ["the progress of each vertex is not known: AssertionError: nothing is explained here"]


STALL_SECONDS = 0.3


async def warned_twice(listener: ProgressLog, seen: list[Progress], caplog: pytest.LogCaptureFixture) -> None:
    async with asyncio.timeout(60), listener.watched():
        for each in seen:
            listener(STEP, each)
        while len(caplog.records) < 2:
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ([], "no answer from Spark yet; it waits for the Spark server"),
        ([progress(3, 8), progress(4, 8)], "4 of 8 Spark tasks, stage 1 of 2, 1 Spark task running; look at them"),
        ([progress(3, 8, running=0)], "waiting for a free core; other operations have all cores"),
    ],
)
def test_a_subtask_that_makes_no_progress_says_so_once_in_a_period_and_what_it_waits_for(
    seen: list[Progress], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="airflow_abs.spark.run.progress")
    started = time.monotonic()
    asyncio.run(warned_twice(ProgressLog(5.0, STALL_SECONDS), seen, caplog))
    assert time.monotonic() - started >= 2 * STALL_SECONDS
    assert all(
        record.getMessage().startswith("no progress for ") and told in record.getMessage() for record in caplog.records
    )


def test_progress_puts_the_warning_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    listener = ProgressLog(5.0, 600.0)
    for seconds, done in [(10, 1), (20, 2), (30, 2)]:  # the last one says nothing new
        now[0] = 100.0 + seconds
        listener(STEP, progress(done, 8))
    assert listener.stalls_at == 100.0 + 20 + 600


def test_the_summary_tells_rows_bytes_files_seconds_and_attempt() -> None:
    file = ResultFile("a", 2048, 1200, 0, (2048,))
    manifest = Manifest("orders", 3, 2, "d", 3.42, {"orders.x": ResultManifest("parquet", "{}", 1, (file, file))})
    assert describe_outcome(manifest) == "orders[3]: wrote 2,400 rows, 4.0 KiB in 2 files, 3.4 s, attempt 2"
    cut_twice = replace(manifest, results={**manifest.results, "orders.y": ResultManifest("parquet", "{}", 1, (file,))})
    assert describe_outcome(cut_twice).startswith("orders[3]: wrote 2,400 rows, 6.0 KiB in 3 files")
    one = replace(manifest, results={"orders.x": ResultManifest("parquet", "{}", 1, (replace(file, rows=1),))})
    assert describe_outcome(one).startswith("orders[3]: wrote 1 row, 2.0 KiB in 1 file,")
