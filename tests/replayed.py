"""Whatever happened in a run: replayed with the recorded options, every decision comes out as it was recorded."""

from __future__ import annotations

from pathlib import Path

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.replayed import replay_run
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.runs.run_reading import read_decisions


def assert_replayed(folder: JobFolder) -> None:
    """Every decision of one job."""
    replayed = replay_run(read_decisions(folder))
    assert [each.again for each in replayed] == [each.recorded for each in replayed]


def assert_all_replayed(exchange: Path) -> None:
    """Every decision of every run that an exchange holds; it holds some."""
    held = list_runs(exchange)
    assert held
    for each in held:
        assert_replayed(each.folder)
