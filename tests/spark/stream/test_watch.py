"""What happens to a stream is remembered beside its checkpoint, and what is asked there reaches its supervisor."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_abs.core.stream_life.lag import LagGrows
from airflow_abs.core.stream_life.life import Batch, Note, StateChange, StreamLife
from airflow_abs.core.streaming.supervision import CancelAsked, DrainAsked, Seen, Tell
from airflow_abs.exchange.streaming.life_record import read_life
from airflow_abs.exchange.streaming.request import StreamRequest, ask_stream
from airflow_abs.spark.stream.query import Activity, FilesRead, StreamProgress
from airflow_abs.spark.stream.watch import StreamEvent, StreamWatch


class Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Bench:
    """A watch over `<root>`, five seconds between its looks."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = Clock()
        self.events: list[StreamEvent] = []
        self.watch = self.again()

    def again(self) -> StreamWatch:
        """Another process' watch over the same stream."""
        return StreamWatch(self.root, "task", "orders 1", lambda event, _: self.events.append(event), 5.0, self.clock)

    def look(self, activity: Activity = Activity.BATCH, after: float = 5.0) -> Seen | None:
        self.clock.now += after
        return asyncio.run(self.watch.attend(activity))

    def ask(self, action: str, query: str = "orders 1") -> None:
        ask_stream(self.root, StreamRequest(action, query, "ann", self.clock.now))  # type: ignore[arg-type]

    @property
    def life(self) -> StreamLife:
        life = read_life(self.root)
        assert life is not None
        return life


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def progress(number: int, ended: float, files: tuple[FilesRead, ...] = ()) -> StreamProgress:
    return StreamProgress(number, 100, 2.0, 7, 4096, ended, 50, files)


def test_states_and_batches_are_written_at_most_every_few_seconds(bench: Bench) -> None:
    bench.watch.change(Tell("Created", "WaitingForResources", "started"))
    bench.look(Activity.ENDED)
    bench.watch.progress(progress(0, 1_006.0))
    bench.look(after=2.0)
    changed = StateChange(1_000.0, "Created", "WaitingForResources", "started")
    assert bench.life == StreamLife("task", "orders 1", (changed,))
    bench.look(after=3.0)
    batch = Batch(0, 1_006.0, 2.0, 100, 50, 7, 4096)
    assert bench.life.batches == (batch,)
    assert bench.events == [changed, batch]
    written = (bench.root / "_airflow_abs" / "life.json").stat().st_mtime_ns
    bench.look()
    assert (bench.root / "_airflow_abs" / "life.json").stat().st_mtime_ns == written  # nothing new, nothing written


def test_another_process_goes_on_with_the_record_and_tells_no_batch_again(bench: Bench) -> None:
    bench.watch.progress(progress(0, 1_001.0))
    bench.look()
    bench.watch = bench.again()
    for number in range(3):
        bench.watch.progress(progress(number, 1_001.0 + number))
    bench.look()
    assert [batch.number for batch in bench.life.batches] == [0, 1, 2]
    assert len(bench.events) == 3


def test_the_lag_is_that_of_the_oldest_file_that_a_batch_read(bench: Bench) -> None:
    folder = bench.root / "spark" / "sources" / "0"
    folder.mkdir(parents=True)
    for number in (3, 4):
        entry = {"path": "file:///in/a", "timestamp": 900_000 + number * 1000, "batchId": number}
        (folder / str(number)).write_text(f"v1\n{json.dumps(entry)}")
    bench.watch.progress(progress(1, 1_000.0, (FilesRead(0, 3, 4), FilesRead(1, 0, 0))))
    bench.look()
    assert bench.life.batches[0].lag == 1_000.0 - 903.0


def test_a_lag_that_grows_is_told_and_stands_in_the_record(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    folder = bench.root / "spark" / "sources" / "0"
    folder.mkdir(parents=True)
    for number in range(10):
        entry = {"path": "file:///in/a", "timestamp": 900_000, "batchId": number}
        (folder / str(number)).write_text(f"v1\n{json.dumps(entry)}")
        bench.watch.progress(progress(number, 1_000.0 + 10 * number, (FilesRead(0, number, number),)))
    bench.look()
    grows = LagGrows(10, 100.0, 190.0)
    assert bench.events[-1] == grows
    assert bench.life.alarm == str(grows)
    assert bench.life.notes == (Note(1_090.0, str(grows)),)
    assert f"orders 1: {grows}" in caplog.text


def test_the_lag_behind_a_topic_is_told_by_its_records_and_alarms_too(bench: Bench) -> None:
    for number in range(10):
        done = replace(progress(number, 1_000.0 + 10 * number), rows_behind=100 * number)
        bench.watch.progress(done)
    bench.look()
    # batches of 100 records and 2 s: each hundred behind is 2 s more
    assert [(batch.lag, batch.rows_behind) for batch in bench.life.batches[:3]] == [(2.0, 0), (4.0, 100), (6.0, 200)]
    assert bench.events[-1] == LagGrows(10, 2.0, 20.0)


def test_a_stop_is_passed_on_at_once_and_only_once(bench: Bench) -> None:
    bench.look()
    bench.ask("stop")
    assert bench.look(after=1.0) is None
    assert bench.look() == CancelAsked()
    assert bench.look() is None
    assert [note.text for note in bench.life.notes] == ["ann has asked it to stop"]


def test_a_drain_waits_for_the_end_of_the_batch(bench: Bench) -> None:
    bench.watch.progress(progress(0, 1_001.0))
    bench.ask("drain")
    assert bench.look() is None
    assert bench.look() is None
    bench.watch.progress(progress(1, 1_010.0))
    assert bench.look(after=0.1) == DrainAsked()


@pytest.mark.parametrize("activity", [Activity.IDLE, Activity.ENDED])
def test_a_drain_does_not_wait_where_no_batch_is_done(bench: Bench, activity: Activity) -> None:
    bench.ask("drain")
    assert bench.look(activity) == DrainAsked()


def test_what_is_asked_of_an_earlier_query_is_left_alone(bench: Bench) -> None:
    bench.ask("stop", query="orders 0")
    assert bench.look() is None


def test_its_end_is_written_at_once(bench: Bench) -> None:
    bench.look()
    bench.watch.change(Tell("StopWithSavepoint", "Finished", "the execution has ended"))
    bench.look(Activity.ENDED, after=0.1)
    assert bench.life.state == "Finished"


def test_an_end_from_outside_is_remembered(bench: Bench) -> None:
    bench.watch.change(Tell("CreatingExecutionGraph", "Executing", "slots are assigned"))
    bench.look()
    bench.again().end("its task was marked or cleared in Airflow")
    assert bench.life.changes[-1] == StateChange(
        1_005.0, "Executing", "Finished", "its task was marked or cleared in Airflow"
    )
