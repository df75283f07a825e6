"""`waiting.json`: shown while someone waits, and no longer."""

from __future__ import annotations

from pathlib import Path

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.results.waiting import read_waiting, write_waiting

WANTS = "2 Spark tasks to run, and the cluster manager says: 0 executors run, 2 wait"


def test_what_a_subtask_waits_for_is_told_while_it_looks_again(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    assert read_waiting(folder, "orders", "digest", 1000.0) is None
    write_waiting(folder, "orders", "digest", WANTS, 1000.0)
    assert read_waiting(folder, "orders", "digest", 1031.0) == WANTS
    assert read_waiting(folder, "orders", "digest", 1090.0) is None
    assert read_waiting(folder, "orders", "another decision", 1001.0) is None
    folder.waiting_path("orders").write_text("{}")
    assert read_waiting(folder, "orders", "digest", 1001.0) is None
