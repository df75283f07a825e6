"""The short part of the suite of streams: the two kinds of fault that are over soon, as the suite causes them by the
hundred. A killed Spark server has a test of its own (`tests/spark/stream/test_server_killed.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.streams.__main__ import run_suite
from tests.faults.streams.spark_files import broken_promises

KINDS = ("kill supervisor", "kill Spark worker")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_three_stateful_streams_come_through_faults_with_duckdbs_answer(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    report = run_suite(1, len(KINDS), tmp_path / "streams", KINDS)
    assert report.wrong == []
    assert sorted(fault.kind for fault in report.faults) == sorted(KINDS)


def event(kind: str, run: str, **more: Any) -> str:
    named = {"Event": f"org.apache.spark.sql.streaming.StreamingQueryListener$Query{kind}Event"}
    return json.dumps(named | {"id": "q", "runId": run} | more) + "\n"


def done(run: str, batch: int) -> str:
    return event("Progress", run, progress={"id": "q", "runId": run, "batchId": batch, "durationMs": {"addBatch": 1}})


def test_a_query_beside_another_one_and_a_batch_of_both_are_found_in_sparks_events(tmp_path: Path) -> None:
    ended, alone = event("Started", "a") + event("Terminated", "a"), event("Started", "b") + done("b", 4)
    (tmp_path / "first").write_text(ended + alone)
    assert broken_promises(tmp_path) == []
    (tmp_path / "second").write_text(event("Started", "c") + event("Started", "d") + done("d", 4))
    assert broken_promises(tmp_path) == [
        f"{tmp_path.name}/second: run d of q began beside run c",
        "batch 4 of q was done by ['b', 'd']",
    ]
