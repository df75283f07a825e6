from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_abs.cli.commands.gc import parse_duration
from airflow_abs.cli.main import main
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_json


def test_ages_are_a_number_and_a_unit() -> None:
    assert [parse_duration(text) for text in ("90s", "30m", " 12h ", "7d")] == [90.0, 1800.0, 43200.0, 604800.0]


def test_an_age_without_a_unit_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gc", "--older-than", "7"]) == 1
    assert capsys.readouterr().err == (
        "airflow-abs: gc: an age of '7'; expected a number and s, m, h or d, for example 7d\n"
    )


@pytest.mark.slow
def test_gc_without_a_migrated_database_says_what_it_needs(tmp_path: Path) -> None:
    """In a process of its own: it imports Airflow."""
    job = JobFolder(tmp_path / "exchange", "d", "r", "j")
    write_json(job.plan_path, {"id": "p", "regions": []})
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "airflow_abs.cli.main",
            "gc",
            "--older-than",
            "0s",
            "--exchange",
            str(job.root),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={
            **os.environ,
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/empty.db",
        },
    )
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1] == (
        "airflow-abs: Airflow's database cannot be queried for unfinished runs (no such table: dag_run); expected "
        "one that `airflow db migrate` has set up: run this where Airflow is configured. Nothing is deleted without it"
    )
    assert job.plan_path.exists()  # type: ignore[attr-defined]
