"""What an attempt has written before its end, and what of it a later one may go on behind."""

from __future__ import annotations

import pytest

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.manifest import Manifest, ResultFile, ResultManifest
from airflow_abs.exchange.records.plan import PlannedStep
from airflow_abs.exchange.results.written_steps import find_whole, leave_out_lost, note_written, read_written
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import write_atomic

NAMES = ("a.whole", "b.whole", "c.whole")
READS: dict[str, dict[str, str]] = {"a.whole": {}, "b.whole": {"a": "a.whole"}, "c.whole": {"b": "b.whole"}}
STEPS = [PlannedStep(name, "{}", "parquet", {}, 1, False, reads, "") for name, reads in READS.items()]


@pytest.fixture
def folder(root: ExchangePath) -> JobFolder:
    return JobFolder(root, "dag", "run", "job")


def written(folder: JobFolder, *names: str) -> dict[str, ResultManifest]:
    found = {}
    for name in names:
        path = f"r/subtask-0/attempt-1/{name}/part-0"
        write_atomic(folder.file_path(path), b"1234")
        found[name] = ResultManifest("parquet", "{}", 1, (ResultFile(path, 4, 1, 0, (4,)),))
    return found


def test_a_note_is_read_by_who_asks_for_that_attempt_under_that_decision(folder: JobFolder) -> None:
    results = written(folder, "a.whole")
    note_written(folder, Manifest("r", 0, 2, "decision", 0.0, results))
    assert read_written(folder, "r", 0, 2, decision="decision") == results
    assert read_written(folder, "r", 0, 1, decision="decision") == {}
    assert read_written(folder, "r", 0, 2, decision="another") == {}
    write_atomic(folder.written_path("r", 0, 2), b"{")
    assert read_written(folder, "r", 0, 2, decision="decision") == {}


def test_what_was_made_of_a_lost_step_does_not_count(folder: JobFolder) -> None:
    noted = written(folder, *NAMES)
    assert list(find_whole(folder, STEPS, noted, ())) == list(NAMES)
    assert list(find_whole(folder, STEPS, {name: noted[name] for name in ("a.whole", "c.whole")}, ())) == ["a.whole"]
    assert list(find_whole(folder, STEPS, noted, {"r/subtask-0/attempt-1/c.whole/part-0"})) == ["a.whole", "b.whole"]
    write_atomic(folder.file_path("r/subtask-0/attempt-1/a.whole/part-0"), b"")
    assert find_whole(folder, STEPS, noted, ()) == {}
    assert list(leave_out_lost(folder, noted, ())) == ["b.whole", "c.whole"]


def test_a_step_counts_without_those_before_it_that_it_does_not_read(folder: JobFolder) -> None:
    steps = [PlannedStep(name, "{}", "parquet", {}, 1, False, {}, "") for name in NAMES]
    assert list(find_whole(folder, steps, written(folder, "a.whole", "c.whole"), ())) == ["a.whole", "c.whole"]
