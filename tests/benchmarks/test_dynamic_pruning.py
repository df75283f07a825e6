"""The benchmark of `prune=`: on a small table all ways have DuckDB's rows, and what was pruned reads the days alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from benchmarks.dynamic_pruning import expected, make_lake, measure


@pytest.mark.spark
def test_what_is_pruned_reads_the_days_of_the_month_alone(connect_server: ConnectEndpoint, tmp_path: Path) -> None:
    make_lake(tmp_path, sales=5000, days=1100)
    assert len(expected(tmp_path)) == 12
    joined, pruned, off, on = measure(connect_server, tmp_path)
    assert (pruned["files"], on["files"]) == (30, 30)  # of November
    sold = [*(tmp_path / "store_sales").rglob("*.parquet")]
    assert joined["files"] == off["files"] == len(sold) - 1  # none of what was sold on no day
    assert pruned["bytes"] == on["bytes"]
