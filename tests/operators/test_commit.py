"""What `commit` looks at before it publishes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.exchange.errors import OutdatedInputError
from airflow_abs.operators.commit import CommitOperator
from tests.recorded_runs import RecordedRun, revenue_run


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    made = revenue_run(tmp_path)
    made.run()
    return made


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Regions that would be published."""
    regions: list[str] = []

    def publish_region(records: Any, region: str, *_: Any) -> dict[str, dict[str, Any]]:
        regions.append(region)
        sizes = {"files": 1, "rows": 2, "bytes": 3, "replaced": ()}
        return {sink.vertex: dict(sizes) for sink in records.plan.region(region).sinks}

    monkeypatch.setattr("airflow_abs.tables.publishing.publication.publish_region", publish_region)
    return regions


def commit(run: RecordedRun, **arguments: Any) -> dict[str, Any]:
    place = {"exchange": str(run.folder.root), "job": run.folder.job, "conn_id": "spark"}
    task = CommitOperator(task_id="commit", region="by_region", **place, **arguments)
    dag_run = SimpleNamespace(dag_id=run.folder.dag_id, run_id=run.folder.run_id)
    return task.execute({"dag_run": dag_run, "outlet_events": {}})  # type: ignore[typeddict-item]


def test_a_region_whose_rows_count_is_published(run: RecordedRun, published: list[str]) -> None:
    assert list(commit(run)) == ["by_region"]
    assert published == ["by_region"]


def test_rows_of_two_attempts_of_a_producer_are_not_published_together(run: RecordedRun, published: list[str]) -> None:
    run.commit("orders", 1, attempt=2, grown=7)
    run.commit("enriched", 2, attempt=2)
    with pytest.raises(OutdatedInputError, match=r"enriched\[0\]: has read attempt 1 of orders\[1\]"):
        commit(run)
    assert not published
