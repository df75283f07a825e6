"""An exchange that the package wrote at commit 80fdde5, on real Spark: it is still read, and still deleted.

A job of four regions with a hot subpartition that two subtasks share, a lost file that was recomputed, a sink, and a
server of its own, after its release; `explain.json` is what that version told of it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.cli.main import main
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import read_commit
from airflow_abs.exchange.records.decisions import read_decision
from airflow_abs.exchange.records.recovery_claim import list_claims
from airflow_abs.exchange.records.server_record import read_server
from airflow_abs.exchange.records.tries import read_tries
from airflow_abs.exchange.runs.cleaning import delete_expired, find_expired
from airflow_abs.exchange.runs.replayed import replay_run
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run

WRITTEN = Path(__file__).parent / "written_at_80fdde5"
JOB = JobFolder(WRITTEN / "exchange", "dag", "run", "job")


def test_everything_that_was_told_of_the_run_is_told_again() -> None:
    told = json.loads((WRITTEN / "explain.json").read_text())
    for gone in ("nondeterministic", "fuse_below"):  # settings of that version
        del told["options"][gone]
    again = json.loads(json.dumps(run_to_json(read_run(JOB))))
    assert only_told(again, told) == told


def only_told(again: Any, told: Any) -> Any:
    """`again` without what that version did not tell yet."""
    match told:
        case dict():
            return {key: only_told(again[key], value) for key, value in told.items() if key in again}
        case list():
            return [only_told(each, value) for each, value in zip(again, told, strict=True)]
    return again


def test_explain_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(JOB.path)]) == 0
    shown = capsys.readouterr().out
    assert "subpartition 7 of enriched.orders is hot and shared by 2" in shown
    assert "cannot be read" not in shown


def test_decisions_keep_the_digests_that_their_manifests_name() -> None:
    digests = {region.name: read_decision(JOB, region.name).digest for region in read_run(JOB).regions}
    assert digests == {
        "orders": "39097432927ddc7a",
        "customers": "f50b4b6a7a0ab505",
        "enriched": "91891a24334add9b",
        "by_region": "412ec4c8bd8aab90",
    }
    assert not any(subtask.is_stale for region in read_run(JOB).regions for subtask in region.subtasks)


def test_it_is_decided_again_as_it_was() -> None:
    again = replay_run(read_run(JOB))
    assert [replayed.is_same for replayed in again] == [True, True, False, True]
    # That version cut a hot subpartition along its producers alone.
    assert again[2].recorded.max_over_mean > 1.4
    assert again[2].again.max_over_mean < 1.2


def test_tries_recoveries_server_and_publication_are_read() -> None:
    assert [record.state for record in read_tries(JOB, "enriched", 3, below=3)] == ["committed"]
    assert [(claim.region, claim.attempt, claim.ended) for claim in list_claims(JOB)] == [("orders", 1001, True)]
    server = read_server(JOB)
    assert server is not None
    assert (server.host, server.port, server.trusted_network) == ("spark.example", 15002, True)
    commit = read_commit(WRITTEN / "mart")
    assert commit is not None
    assert [(entry.identity, sum(file.rows for file in entry.files)) for entry in commit.entries] == [
        ("dag/run/job/by_region", 3)
    ]


def test_gc_deletes_it(tmp_path: Path) -> None:
    root = Path(shutil.copytree(WRITTEN / "exchange", tmp_path / "exchange"))
    files = sum(path.is_file() for path in root.rglob("*"))
    found = find_expired(root, 3600.0, now=4e9)
    assert [(str(job), job.files) for job in found] == [("dag/run/job", files)]
    assert [freed.files for _, freed in delete_expired(found)] == [files]
    assert not (root / "dag").exists()
