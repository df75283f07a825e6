"""Two runs that write the same output at once, and somebody who reads it all the time."""

from __future__ import annotations

import contextlib
import re
import threading
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.services import AirflowServices
from tests.spark_events import operations
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]

TWINS = ("twin-1", "twin-2")


def read_all_the_time(mart: Path, over: threading.Event, seen: list[list[tuple[object, ...]]]) -> None:
    """Every state of the output that a reader meets: [(run, rows)]."""
    query = f"SELECT run, count(*) FROM read_parquet('{mart}/*.parquet') GROUP BY run"
    with duckdb.connect() as connection:
        while not over.wait(0.02):
            with contextlib.suppress(duckdb.IOException):  # nothing there yet, or listed before and opened after a swap
                seen.append(connection.sql(query).fetchall())


def test_of_two_runs_with_one_output_one_wins_the_other_says_so_and_no_reader_sees_a_mixture(
    airflow: AirflowServices, folder: Path
) -> None:
    before = operations(folder / "events")
    airflow.api.wait_for_dag("twins", SECONDS)
    for day, run_id in enumerate(TWINS, 1):
        airflow.api.trigger_run("twins", datetime(2026, 1, day, tzinfo=UTC), run_id=run_id)
    over, seen = threading.Event(), list[list[tuple[object, ...]]]()
    reader = threading.Thread(target=read_all_the_time, args=(folder / "mart" / "twins", over, seen))
    reader.start()
    try:
        wait_until(lambda: len(operations(folder / "events") - before) >= 4)  # two of each, which go on together
        (folder / "mart" / "gates" / "twins").touch()
        assert [airflow.api.wait_for_run("twins", run_id, SECONDS) for run_id in TWINS] == ["success"] * 2
        wait_until(lambda: bool(seen))
    finally:
        (folder / "mart" / "gates" / "twins").touch()
        over.set()
        reader.join()
    assert {len(state) for state in seen} == {1}
    assert {rows for ((_, rows),) in seen} == {2}

    ((winner, _),) = seen[-1]
    (loser,) = set(TWINS) - {winner}
    logs = {run_id: commit_log(airflow, run_id) for run_id in TWINS}
    assert re.search(rf"this replaced the output of \w+:twins/{loser}/job", logs[str(winner)])
    assert "this replaced" not in logs[loser]


def commit_log(airflow: AirflowServices, run_id: str) -> str:
    """Of the try that published: one that met the other at the target was refused, and tried again."""
    states = airflow.api.task_instances("twins", run_id)
    tries = next(each.try_number for each in states if each.task_id == "job.numbers.commit")
    return airflow.api.task_log("twins", run_id, "job.numbers.commit", try_number=tries)
