"""What a row count is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.published_rows import remember_published, rows_before
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.storage.whole_files import write_json


def run(root: Path, run_id: str) -> JobFolder:
    return JobFolder(root, "dag", run_id, "job")


def test_the_first_run_has_nothing_before_it(tmp_path: Path) -> None:
    assert rows_before(run(tmp_path, "one"), "mart") is None


def test_a_run_is_compared_with_the_one_that_was_published_last(tmp_path: Path) -> None:
    for name, rows in (("one", 10), ("two", 20)):
        remember_published(run(tmp_path, name), "mart", rows)
    assert rows_before(run(tmp_path, "three"), "mart") == 20
    assert rows_before(run(tmp_path, "three"), "other") is None


def test_a_repeated_run_is_compared_with_the_one_before_it_and_keeps_its_place(tmp_path: Path) -> None:
    for name, rows in (("one", 10), ("two", 20), ("three", 30), ("two", 22)):
        remember_published(run(tmp_path, name), "mart", rows)
    found = [rows_before(run(tmp_path, name), "mart") for name in ("one", "two", "three", "four")]
    assert found == [None, 10, 22, 30]


def test_no_more_runs_are_remembered_than_are_needed(tmp_path: Path) -> None:
    for number in range(40):
        remember_published(run(tmp_path, f"{number}"), "mart", number)
    assert rows_before(run(tmp_path, "8"), "mart") is None  # 8 to 39 are kept
    assert rows_before(run(tmp_path, "9"), "mart") == 8


def test_it_is_no_run(tmp_path: Path) -> None:
    remember_published(run(tmp_path, "_published"), "mart", 1)
    assert list_runs(tmp_path) == []
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")] == ["dag/_published/job/mart.json"]


def test_what_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    folder = run(tmp_path, "one")
    write_json(folder.published_path("mart"), {"runs": [{"run_id": "zero", "rows": -1}]})
    with pytest.raises(DamagedFileError, match="rows"):
        rows_before(folder, "mart")
