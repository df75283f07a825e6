"""The benchmark of tables beside files: its own accounting, and one small round of each on a real server."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from benchmarks import table_cost
from benchmarks.table_cost import Lake, Row, measure, summarise


def sample(kind: str, number: int, seconds: float) -> Row:
    return {"kind": kind, "round": number, "plan": 1.0, "run": seconds, "commit": 0.5, "all": seconds + 1.5, "cpu": 8.0}


def test_a_ratio_is_the_median_over_rounds_and_not_of_medians() -> None:
    seconds = {"files": (2.5, 8.5, 3.5), "iceberg": (4.5, 9.5, 3.0)}  # with plan and commit: 6/4, 11/10, 4.5/5
    samples = [sample(kind, number, took) for kind, of in seconds.items() for number, took in enumerate(of)]
    files, iceberg = summarise(samples)
    assert files == {
        "kind": "files", "plan": 1.0, "run": 3.5, "commit": 0.5, "all": 5.0, "cpu": 8.0, "all/files": 1.0,
        "cpu/files": 1.0,
    }  # fmt: skip
    assert (iceberg["all"], iceberg["all/files"]) == (6.0, 1.1)


@pytest.mark.spark
def test_every_format_gives_the_rows_that_duckdb_has(
    connect_server: ConnectEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_cost, "ROWS", 8000)
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", "replaced")  # and taken away again
    table_cost.expected.cache_clear()
    lake = Lake(tmp_path)
    lake.make()
    taken = [measure(connect_server, lake, psutil.Process(), kind, 0) for kind in lake.ends()]
    assert [each["kind"] for each in taken] == ["files", "iceberg", "delta"]
    lake.catalog.close()
    table_cost.expected.cache_clear()
