"""docs/start/quickstart.md: its DAG, on the data that the page makes, and the mistake that it proposes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from airflow_abs.core.errors import JobGraphError
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.testing import run_locally
from tests.docs.declared_job import declared_job

if TYPE_CHECKING:
    from airflow_abs.spark.connect.endpoint import ConnectEndpoint

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[2] / "docs" / "start" / "quickstart.md").read_text()
(DAG_FILE,) = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE)
CONTEXT = {"params": {"day": "2026-01-03"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In the place of the page's, with one of its days."""
    folder = tmp_path_factory.mktemp("quickstart")
    generate(DataSpec(folder / "lake", (date(2026, 1, 3),), 0.01))
    return folder


@pytest.fixture
def job_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """The job that such a DAG file declares."""

    return lambda code: declared_job(code.replace("/tmp/quickstart", str(folder)), "revenue", monkeypatch)


@pytest.mark.sample
def test_its_job_gives_the_revenue_of_each_region(
    job_of: Callable[[str], Any], connect_server: ConnectEndpoint, folder: Path
) -> None:
    run = run_locally(job_of(DAG_FILE), parallelism=3, endpoint=connect_server, context=CONTEXT)
    found = run["by_region"].rows.sort_by("region").to_pylist()
    expected = duckdb.sql(f"""
        SELECT region, sum(amount) AS revenue
        FROM '{folder}/lake/orders/ds=2026-01-03/*.parquet' JOIN '{folder}/lake/customers/*.parquet'
        USING (customer_id) WHERE status IN ('F', 'O') GROUP BY region ORDER BY region""").fetchall()
    assert [(row["region"], row["revenue"]) for row in found] == expected
    assert len(run["enriched"].decision.subtasks) == 3


@pytest.mark.sample
def test_the_mistake_that_it_proposes_is_one_subtask_or_refused_with_what_to_write(
    job_of: Callable[[str], Any], connect_server: ConnectEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    assert 'Break it: write `groupBy("amount")` in `by_region`' in PAGE
    mistaken = DAG_FILE.replace('groupBy("region")', 'groupBy("amount")')
    run = run_locally(job_of(mistaken), endpoint=connect_server, context=CONTEXT)
    assert run["by_region"].decision.parallelism == 1
    assert "vertex 'by_region' runs as one subtask, one Spark operation over all slots: an aggregate" in caplog.text
    assert "read the input with hash('amount')" in caplog.text
    mistaken = mistaken.replace("share_tasks=False", 'share_tasks=False, unsplittable="refuse"')
    with pytest.raises(
        JobGraphError,
        match=r"'by_region' cannot run in parts: .* value of amount .* read the input with hash\('amount'\)",
    ):
        run_locally(job_of(mistaken), endpoint=connect_server, context=CONTEXT)
