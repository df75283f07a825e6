"""Only what is marked as an exchange, and only runs in it, may be deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.cleaning import delete_expired, find_expired
from airflow_abs.exchange.runs.root_marker import mark_root
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.exchange.storage.whole_files import encode_json, write_atomic
from tests.exchange.runs.filled_run import PLAN, fill, names_below


def test_files_outside_the_layout_are_left_alone(tmp_path: Path) -> None:
    mark_root(tmp_path)
    for name in ("readme", "d/x", "d/r/x", ".hidden/r/j/plan.json"):
        write_atomic(tmp_path / name, PLAN)
    assert find_expired(tmp_path, 0.0, now=1e12) == []


def test_data_that_lies_as_deep_as_a_run_is_none(root: ExchangePath) -> None:
    write_atomic(root / "sales" / "orders" / "ds=2026-01-01" / "part.parquet", b"data")
    with pytest.raises(ExchangeError, match=r"found neither the file _airflow_abs_exchange there nor a run with a rea"):
        find_expired(root, 0.0, now=1e12)
    mark_root(root)
    assert find_expired(root, 0.0, now=1e12) == []
    fill(JobFolder(root, "d", "r", "j"))
    assert [str(job) for job, _ in delete_expired(find_expired(root, 0.0, now=1e12))] == ["d/r/j"]
    assert names_below(root) == ["_airflow_abs_exchange", "sales/orders/ds=2026-01-01/part.parquet"]


@pytest.mark.parametrize("plan", [b"", b'{"id": "p", "regions": []}', PLAN[:-2], encode_json({"id": "p"})])
def test_a_folder_without_a_readable_plan_is_no_run(tmp_path: Path, plan: bytes) -> None:
    mark_root(tmp_path)
    fill(JobFolder(tmp_path, "d", "r", "j"))
    write_atomic(tmp_path / "d" / "r" / "j" / "plan.json", plan)
    assert find_expired(tmp_path, 0.0, now=1e12) == []


def test_a_plan_of_another_version_is_one(tmp_path: Path) -> None:
    fill(JobFolder(tmp_path, "d", "r", "j"))
    write_atomic(tmp_path / "d" / "r" / "j" / "plan.json", encode_json({"jobs": []}, version=2))
    assert [str(job) for job in find_expired(tmp_path, 0.0, now=1e12)] == ["d/r/j"]


def test_a_root_from_before_there_was_a_marker_is_known_by_its_plans_and_marked(root: ExchangePath) -> None:
    fill(JobFolder(root, "d", "r", "j"))
    expired = find_expired(root, 0.0, now=1e12)
    assert "_airflow_abs_exchange" not in names_below(root)  # a search writes nothing
    assert [str(job) for job, _ in delete_expired(expired)] == ["d/r/j"]
    assert names_below(root) == ["_airflow_abs_exchange"]
    write_atomic(root / "lake" / "orders" / "ds=1" / "x", b"")
    assert find_expired(root, 0.0, now=1e12) == []  # no error: it is marked now


def test_a_root_is_marked_once(root: ExchangePath) -> None:
    mark_root(root)
    before = locate(root).fs.info((locate(root) / "_airflow_abs_exchange").path)
    mark_root(root)
    assert locate(root).fs.info((locate(root) / "_airflow_abs_exchange").path) == before
