"""`airflow-abs stream` over records as a supervisor leaves them; on a real query: tests/spark/stream/test_asked.py."""

from __future__ import annotations

import json
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.cli.main import main
from airflow_abs.core.stream_life.life import Batch, Note, StateChange, StreamLife
from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder
from airflow_abs.exchange.streaming.life_record import write_life
from airflow_abs.exchange.streaming.request import read_request

BEGAN = datetime(2026, 1, 4, 1, 0, tzinfo=UTC).timestamp()
LIFE = StreamLife(
    "clicks/daily/by_minute",
    "by_minute 1",
    (
        StateChange(BEGAN, "Created", "WaitingForResources", "started"),
        StateChange(BEGAN + 1, "WaitingForResources", "CreatingExecutionGraph", "desired resources are there"),
        StateChange(BEGAN + 2, "CreatingExecutionGraph", "Executing", "slots are assigned"),
    ),
    (Note(BEGAN + 60, "the lag grew over 10 batches"),),
    (
        Batch(0, BEGAN + 10, 2.0, 1000, 50, 12, 4096, 3.5),
        Batch(1, BEGAN + 20, 0.5, 0),
    ),
    restarts=1,
    alarm="the lag grew over 10 batches",
)


def held(root: Path, now: float | None = None) -> CheckpointLease:
    """A checkpoint that a stream holds since then."""
    holder = Holder("clicks/daily/by_minute", "here", "session", "spark:15002", "by_minute 1")
    lease = CheckpointLease(root, holder, lambda: time.time() if now is None else now)
    lease.take()
    lease.begin_session("session", "spark:15002", 4)
    return lease


def test_status_tells_state_happenings_and_batches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held(tmp_path)
    write_life(tmp_path, LIFE)
    assert main(["stream", "status", str(tmp_path)]) == 0
    assert (
        capsys.readouterr().out
        == """\
clicks/daily/by_minute: Executing since 2026-01-04 01:00:02 UTC
  supervised, on the Spark server spark:15002, started for 4 slots
  1 restart, 0 rescales
  ALARM: the lag grew over 10 batches

  when (UTC)           state                   why
  2026-01-04 01:00:00  WaitingForResources     started
  2026-01-04 01:00:01  CreatingExecutionGraph  desired resources are there
  2026-01-04 01:00:02  Executing               slots are assigned
  2026-01-04 01:01:00                          the lag grew over 10 batches

  batch  ended (UTC)           took  rows in  rows out  rows in/s    lag  behind  state rows    state
      0  2026-01-04 01:00:10  2.0 s    1,000        50        500  3.5 s       ?          12  4.0 KiB
      1  2026-01-04 01:00:20  0.5 s        0         ?          0      ?       ?           0      0 B
"""
    )


def test_status_of_a_stream_that_nobody_supervises_says_since_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held(tmp_path, BEGAN)
    assert main(["stream", "status", str(tmp_path)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "clicks/daily/by_minute: Created",
        "  without a supervisor since 2026-01-04 01:01:00 UTC; its query may still be running",
        "  0 restarts, 0 rescales",
    ]


def test_status_as_json_has_all_that_is_remembered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held(tmp_path)
    write_life(tmp_path, LIFE)
    assert main(["stream", "status", str(tmp_path), "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["supervised"], told["state"], told["restarts"]) == (True, "Executing", 1)
    assert told["batches"][0]["lag"] == 3.5
    assert len(told["changes"]) == 3


def test_only_the_last_ten_are_shown_unless_all_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    held(tmp_path)
    life = StreamLife()
    for number in range(30):
        life = life.with_batch(Batch(number, BEGAN + number, 0.5, 1))
    write_life(tmp_path, life)
    lines = {}
    for more in ([], ["--all"]):
        main(["stream", "status", str(tmp_path), *more])
        lines[len(more)] = capsys.readouterr().out.count("2026-01-04")
    assert lines == {0: 10, 1: 30}


@pytest.mark.parametrize("action", ["status", "drain", "stop"])
def test_a_folder_without_a_stream_is_refused(tmp_path: Path, action: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stream", action, str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"airflow-abs: checkpoint {tmp_path}: no stream has run on it; expected the `checkpoint=` of an "
        "AdaptiveSparkStream, as it was rendered\n"
    )


def test_a_stream_that_has_ended_is_not_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held(tmp_path).give_back()
    assert main(["stream", "drain", str(tmp_path)]) == 1
    assert capsys.readouterr().err == (
        f"airflow-abs: checkpoint {tmp_path}: clicks/daily/by_minute has ended, and no stream runs on it now\n"
    )
    assert read_request(tmp_path, "by_minute 1") is None


def test_a_request_that_nobody_hears_stands_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held(tmp_path, BEGAN)
    assert main(["stream", "stop", str(tmp_path), "--wait", "0"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "asked clicks/daily/by_minute to stop",
        "it has had no supervisor since 2026-01-04 01:01:00 UTC, and ends when a triggerer takes it over",
        "it has not ended yet; the request remains in place",
    ]
    request = read_request(tmp_path, "by_minute 1")
    assert request is not None
    assert request.action == "stop"


def test_it_waits_for_the_end_and_tells_what_happens_on_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lease = held(tmp_path)
    write_life(tmp_path, LIFE)

    def supervise() -> None:
        while read_request(tmp_path, "by_minute 1") is None:
            time.sleep(0.05)
        stopped = LIFE.with_change(StateChange(BEGAN + 99, "Executing", "StopWithSavepoint", "asked to stop"))
        ended = StateChange(BEGAN + 100, "StopWithSavepoint", "Finished", "the execution has ended")
        write_life(tmp_path, stopped.with_change(ended))
        lease.give_back()

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    assert main(["stream", "drain", str(tmp_path), "--wait", "60"]) == 0
    supervisor.join(60)
    assert capsys.readouterr().out.splitlines() == [
        "asked clicks/daily/by_minute to drain",
        "2026-01-04 01:01:39 UTC  Executing -> StopWithSavepoint: asked to stop",
        "2026-01-04 01:01:40 UTC  StopWithSavepoint -> Finished: the execution has ended",
    ]
