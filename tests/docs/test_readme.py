"""README.md and docs/start/writing-a-job.md: their DAGs, on the data that README generates."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.testing import run_locally
from tests.docs.declared_job import declared_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]
DAG_FILES = [
    code
    for page in ("README.md", "docs/start/writing-a-job.md")
    for code in re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), flags=re.DOTALL | re.MULTILINE)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the place of the page's, with one of its days."""
    folder = tmp_path_factory.mktemp("revenue")
    generate(DataSpec(folder / "lake", (date(2026, 1, 3),), 0.01))
    return folder


@pytest.mark.sample
@pytest.mark.parametrize("dag_file", DAG_FILES, ids=["readme", "operators"])
def test_a_dag_of_the_pages_gives_the_revenue_of_each_region(
    dag_file: str, connect_server: ConnectEndpoint, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = declared_job(dag_file.replace("/tmp/revenue", str(folder)), "job", monkeypatch)
    run = run_locally(job, parallelism=3, endpoint=connect_server, logical_date=datetime(2026, 1, 4, tzinfo=UTC))
    found = run["by_region"].rows.sort_by("region").to_pylist()
    expected = duckdb.sql(f"""
        SELECT region, sum(amount) AS revenue
        FROM '{folder}/lake/orders/ds=2026-01-03/*.parquet' JOIN '{folder}/lake/customers/*.parquet'
        USING (customer_id) WHERE status IN ('F', 'O') GROUP BY region ORDER BY region""").fetchall()
    assert [(row["region"], row["revenue"]) for row in found] == expected
    assert len(run["enriched"].decision.subtasks) == 3
