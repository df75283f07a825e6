"""The short part of the store suite: some faults on an S3 server, as `make test-faults` causes them by the hundred."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_abs.exchange.paths import JobFolder
from tests.faults.store.roles import SUBPARTITIONS, rows_of

FAULTS = 6


@pytest.mark.slow
def test_two_runs_of_one_date_on_an_object_store_come_through_faults_with_one_whole_output(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.faults.store.suite", "--seed", "5", "--faults", str(FAULTS)]
    done = subprocess.run(
        [*command, "--json", str(tmp_path / "report.json")], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # More than one where a round is over before all faults have come.
    rounds = json.loads((tmp_path / "report.json").read_text())
    assert [each["wrong"] for each in rounds] == [[]] * len(rounds)
    assert sum(sum(each["faults"].values()) for each in rounds) == FAULTS


def test_no_two_runs_have_the_same_rows() -> None:
    """Else nobody would see that they were mixed."""
    assert len({tuple(rows_of(run)) for run in ("1-a", "1-b", "1-z")}) == 3
    assert [part for part, _ in rows_of("1-a")] == list(range(SUBPARTITIONS))
    assert JobFolder(Path("x"), "dag", "1-a", "job").path.parent.name == "1-a"  # as the suite knows it by its folder
