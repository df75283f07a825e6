"""The short part of the suite of streams: the two kinds of fault that are over soon, as the suite causes them by the
hundred. A killed Spark server has a test of its own (`tests/spark/stream/test_server_killed.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.streams.__main__ import run_suite

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

KINDS = ("kill supervisor", "kill Spark worker")


def test_three_stateful_streams_come_through_faults_with_duckdbs_answer(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    report = run_suite(1, len(KINDS), tmp_path / "streams", KINDS)
    assert report.wrong == []
    assert sorted(fault.kind for fault in report.faults) == sorted(KINDS)
