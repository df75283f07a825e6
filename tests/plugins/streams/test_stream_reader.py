"""What the page is told of a run's streams."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from airflow_abs.exchange.streaming.lease import CheckpointLease, Holder
from airflow_abs.exchange.streaming.life_record import write_life
from airflow_abs.plugins.streams.airflow_streams import StreamFacts
from airflow_abs.plugins.streams.stream_reader import StreamReader
from tests.plugins.served_page import facts
from tests.plugins.streams.lived import NOW, lived

RUN = replace(facts(), dag_id="clicks")


def held(folder: Path, owner: str = "clicks/run/by_minute") -> None:
    lease = CheckpointLease(folder, Holder(owner, "here", query="by_minute 1"), lambda: NOW)
    lease.take()
    lease.begin_session("session", "spark:15002", 4)


def told_of(checkpoint: str | None, *, now: float = NOW, index: int = -1) -> dict[str, Any]:
    stream = StreamFacts("by_minute", index, "deferred", 1, checkpoint)
    told = StreamReader(Path, lambda: now).read_run(RUN, [stream])
    assert (told["dag_id"], told["run_id"], told["now"]) == ("clicks", "run", now)
    (only,) = told["streams"]
    return dict(only)


def test_a_stream_is_told_with_who_supervises_it_and_all_that_is_remembered(tmp_path: Path) -> None:
    held(tmp_path)
    write_life(tmp_path, lived())
    assert told_of(str(tmp_path)) == {
        "task_id": "by_minute",
        "map_index": -1,
        "state": "deferred",
        "try_number": 1,
        "checkpoint": str(tmp_path),
        "problem": None,
        "supervised": True,
        "is_this": True,
        "holder": {"owner": "clicks/run/by_minute", "server": "spark:15002", "slots": 4, "until": NOW + 60},
        "life": asdict(lived()),
    }


def test_one_that_nobody_renews_is_not_supervised(tmp_path: Path) -> None:
    held(tmp_path)
    assert told_of(str(tmp_path), now=NOW + 61)["supervised"] is False


def test_a_checkpoint_that_another_run_has_by_now_is_not_this_ones(tmp_path: Path) -> None:
    held(tmp_path, "clicks/later/by_minute")
    assert told_of(str(tmp_path))["is_this"] is False


def test_the_index_of_a_mapped_stream_is_part_of_who_it_is(tmp_path: Path) -> None:
    held(tmp_path, "clicks/run/by_minute[3]")
    assert told_of(str(tmp_path), index=3)["is_this"] is True
    assert told_of(str(tmp_path), index=2)["is_this"] is False


def test_what_cannot_be_read_is_said_with_its_reason(tmp_path: Path) -> None:
    assert told_of(None)["problem"] == "its task has not started, or Airflow no longer knows where its checkpoint is"
    assert told_of(str(tmp_path))["problem"] == "it has not started yet"
    held(tmp_path)
    (tmp_path / "_airflow_abs" / "life.json").write_text("half")
    problem = told_of(str(tmp_path))["problem"]
    assert problem.startswith("DamagedFileError: ")
    assert "life.json: 4 bytes that do not end in a checksum" in problem
