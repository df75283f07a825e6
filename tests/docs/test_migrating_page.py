"""docs/migrating.md: its script and its job, run on the same files."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_abs.exchange.errors import ExpectationError
from airflow_abs.testing import run_locally
from airflow_abs.testing.rows import describe_difference
from airflow_abs.testing.tables import write_table

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text()
SCRIPT, JOB = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
ORDERS = {
    "order_id": list(range(60)),
    "customer_id": [key % 15 or None for key in range(60)],
    "amount": [key * 7 % 31 if key % 11 else None for key in range(60)],
    "status": ["FFOP"[key % 4] for key in range(60)],
}
CUSTOMERS = {"customer_id": list(range(14)), "region": [f"r{key % 3}" for key in range(14)], "name": ["n"] * 14}


def make_lake(folder: Path, orders: Mapping[str, Any]) -> Path:
    write_table(pa.table(orders), folder / "lake" / "orders" / "ds=2026-01-03")
    write_table(pa.table(CUSTOMERS), folder / "lake" / "customers")
    return folder


@pytest.fixture
def run_script(monkeypatch: pytest.MonkeyPatch, connect_server: ConnectEndpoint) -> Any:
    """Runs the script as it stands on the page, but for the folder: plain PySpark on a session of the shared server."""
    from airflow_abs.spark.connect.session import open_session

    def run(folder: Path) -> None:
        with monkeypatch.context() as patch, open_session(connect_server):
            patch.setattr(sys, "argv", ["revenue.py", "2026-01-03"])
            patch.setenv("SPARK_REMOTE", "sc://the-active-session")  # the builder wants one, and takes what is active
            exec(SCRIPT.replace("/data/", f"{folder}/"), {})  # noqa: S102 - our own page

    return run


def run_job(folder: Path, server: ConnectEndpoint) -> Any:
    names: dict[str, Any] = {}
    exec(JOB.replace("/data/", f"{folder}/"), names)  # noqa: S102
    return run_locally(names["revenue"], 3, endpoint=server, logical_date=datetime(2026, 1, 4, tzinfo=UTC))


def test_the_job_gives_the_rows_of_the_script(connect_server: ConnectEndpoint, tmp_path: Path, run_script: Any) -> None:
    folder = make_lake(tmp_path, ORDERS)
    run_script(folder)
    run = run_job(folder, connect_server)
    for vertex, written, rows in (("by_region", "revenue", 3), ("best", "best_customers", 10)):
        script = pq.read_table(folder / "mart" / written / "ds=2026-01-03", partitioning=None)
        assert script.num_rows == rows
        assert describe_difference(run[vertex].rows, script) is None
    assert {name: vertex.decision.parallelism for name, vertex in run.items()} == dict.fromkeys(run, 3) | {"best": 1}


def test_where_the_script_raises_the_job_publishes_nothing(
    connect_server: ConnectEndpoint, tmp_path: Path, run_script: Any
) -> None:
    folder = make_lake(tmp_path, ORDERS | {"amount": [-1] * 60})
    with pytest.raises(ValueError, match="negative amounts"):
        run_script(folder)
    with pytest.raises(ExpectationError, match="no negative amounts"):
        run_job(folder, connect_server)
