from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.exchange.records.job_history import read_history
from airflow_abs.operators.release import ReleaseOperator
from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from tests.recorded_runs import revenue_run


class TaskStates:
    """What Airflow tells a running task of others; the states are given."""

    def __init__(self, states: dict[str, str | None]) -> None:
        self.states = states

    def get_task_states(self, dag_id: str, *, task_ids: list[str], run_ids: list[str]) -> dict[str, Any]:
        return {run_ids[0]: self.states}


@pytest.mark.parametrize(
    ("states", "unfinished"),
    [
        ({"job.plan": "success", "job.orders.run_0": "success"}, set()),
        # decided again, to one subtask: the other two are there no more
        ({"job.orders.run_0": "success", "job.orders.run_1": "removed", "job.orders.run_2": "removed"}, set()),
        ({"job.orders.run_0": "failed", "job.sums.run": "upstream_failed"}, {"job.orders.run_0", "job.sums.run"}),
        # it ran inside another region
        ({"job.orders.decide": "skipped", "job.orders.run": "skipped", "job.sums.run_0": "success"}, set()),
        ({"job.orders.run_0": None, "job.orders.run_1": "skipped"}, {"job.orders.run_0"}),
    ],
)
def test_subtasks_that_were_dropped_or_skipped_keep_no_data(states: dict[str, Any], unfinished: set[str]) -> None:
    release = ReleaseOperator(task_id="release", task_ids=["job.plan"], exchange="/x", job="job", conn_id="spark")
    context: Any = {"dag_run": SimpleNamespace(dag_id="d", run_id="r"), "ti": TaskStates(states)}
    assert release._not_succeeded(context) == unfinished


def context_of(dag_id: str, run_id: str) -> Any:
    run = SimpleNamespace(dag_id=dag_id, run_id=run_id, logical_date=datetime(2026, 1, 5, tzinfo=UTC), run_after=None)
    return {"dag_run": run}


def test_what_became_of_a_run_is_remembered_before_its_data_are_deleted(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    run.decide("customers")
    release = ReleaseOperator(
        task_id="release", task_ids=["revenue.plan"], exchange=str(tmp_path), job="revenue", conn_id="spark"
    )
    release._tell_of_the_run(context_of(run.folder.dag_id, run.folder.run_id))
    (past,) = read_history(replace(run.folder, run_id="next")).runs
    assert (past.run_id, past.date) == (run.folder.run_id, "2026-01-05T00:00:00+00:00")
    assert [(region.name, region.is_whole) for region in past.regions] == [("orders", True), ("customers", False)]


def test_a_run_that_was_never_planned_leaves_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    release = ReleaseOperator(task_id="release", task_ids=[], exchange=str(tmp_path), job="revenue", conn_id="spark")
    release._tell_of_the_run(context_of("dag", "run"))
    assert "no metrics of this run, and nothing for the job's history" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_a_run_that_was_never_planned_has_nothing_to_end_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = SimpleNamespace(find_endpoint=lambda: ConnectEndpoint("127.0.0.1", 1))
    monkeypatch.setattr(ReleaseOperator, "spark_hook", lambda *_: hook)
    release = ReleaseOperator(task_id="release", task_ids=[], exchange=str(tmp_path), job="revenue", conn_id="spark")
    release._end_on_spark(None, context_of("dag", "run"))
    told = capsys.readouterr().out
    assert "nothing to stop on Spark: plan stored no plan" in told
    assert "warning" not in told.lower()
