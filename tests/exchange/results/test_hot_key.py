"""`hot-key.json`, and which subtask is to look for what stands in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.core.hot_key import HotKey
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.slices import cut_slices
from airflow_abs.exchange.results.hot_key import read_hot_key, write_hot_key
from airflow_abs.exchange.runs.cleaning import release_job
from airflow_abs.exchange.runs.run_json import run_to_json
from airflow_abs.exchange.runs.run_reading import read_run
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun

FOUND = HotKey("sums.orders", 5, 9_000, 100, ("key",), ("17",), 97, 100)


def made_run(root: Path, hot_bytes: int) -> RecordedRun:
    """Two subtasks write 100 bytes into each of 16 subpartitions, and so many into the sixth."""
    regions = [MadeRegion("orders", files=(1000, 1000)), MadeRegion("sums", inputs={"orders": Partitioning.HASH})]
    folder = JobFolder(root, "dag", "run", "job")
    run = RecordedRun(folder, regions, lambda region, index, subpartition: hot_bytes if subpartition == 5 else 100)
    run.write_plan()
    run.run("orders")
    run.decide("sums")
    return run


def test_one_subtask_looks_the_first_that_reads_the_hottest_subpartition(tmp_path: Path) -> None:
    run = made_run(tmp_path, hot_bytes=2000)
    slices = cut_slices(run.stored["sums"])
    assert OPTIONS.target_bytes == 1000
    looking = [each for each in slices if each.hottest is not None]
    assert [5 in (each.subpartitions or ()) for each in looking] == [True]
    found = looking[0].hottest
    assert found is not None
    assert (found.input, found.subpartition, found.bytes, found.median) == ("sums.orders", 5, 4000, 200)


def test_none_looks_where_nothing_is_hot(tmp_path: Path) -> None:
    assert [each.hottest for each in cut_slices(made_run(tmp_path, hot_bytes=300).stored["sums"])] == [None] * 4


def test_what_was_found_is_told_under_its_own_decision_and_survives_a_release(tmp_path: Path) -> None:
    run = made_run(tmp_path, hot_bytes=2000)
    digest = run.stored["sums"].digest
    assert read_hot_key(run.folder, "sums", digest) is None
    write_hot_key(run.folder, "sums", digest, FOUND)
    release_job(run.folder)
    assert read_hot_key(run.folder, "sums", digest) == FOUND
    assert read_hot_key(run.folder, "sums", "another") is None
    told = run_to_json(read_run(run.folder))["regions"][1]["hot_key"]
    assert (told["key"], told["share"], told["advice"][:21]) == ("key = 17", 0.97, "it is not distributed")


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"version": 1, "checksum": "x"}'])
def test_one_that_cannot_be_read_is_none(tmp_path: Path, damage: bytes) -> None:
    run = made_run(tmp_path, hot_bytes=2000)
    Path(str(run.folder.hot_key_path("sums"))).write_bytes(damage)
    assert read_hot_key(run.folder, "sums", run.stored["sums"].digest) is None
