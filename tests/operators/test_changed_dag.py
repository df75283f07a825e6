"""A DAG file that was changed after `plan` ran, and tasks of the run that are cleared without `plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files, VertexOptions
from airflow_abs.airflow_abilities import AirflowFailException
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.exchange.errors import PlanMismatchError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.execution.task_end import error_to_json
from airflow_abs.spark.errors import UserCodeError
from airflow_abs.triggers.decide import DecideTrigger
from tests.gathered import job_arguments
from tests.recorded_runs import OPTIONS, MadeRegion, RecordedRun

CLEAR = "Clear plan as well, and everything after it"


def declare(root: Path, body: Callable[[], None], **options: Any) -> DAG:
    with DAG("daily", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as dag:
        with AdaptiveSparkJob("job", exchange=str(root), **job_arguments(options)):
            body()
    return dag


def as_planned() -> None:
    orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
    total = {"inputs": {"orders": orders.hash("id")}, "sink": Files("/mart/{{ ds }}")}
    AdaptiveSparkOperator(task_id="total", sql="SELECT * FROM {orders}", **total)


def with_other_sink() -> None:
    orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
    total = {"inputs": {"orders": orders.hash("id")}, "sink": Files("/other/{{ ds }}")}
    AdaptiveSparkOperator(task_id="total", sql="SELECT * FROM {orders}", **total)


def with_more_sinks() -> None:
    orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"), sink=Files("/mart/orders"))
    total = {"inputs": {"orders": orders.hash("id")}, "sink": Files("/mart/{{ ds }}")}
    AdaptiveSparkOperator(task_id="total", sql="SELECT * FROM {orders}", **total)


def with_vertex_upstream() -> None:
    raw = AdaptiveSparkOperator(task_id="raw", source=Files("/lake/orders"))
    orders = AdaptiveSparkOperator(task_id="orders", inputs={"raw": raw.hash("id")})
    total = {"inputs": {"orders": orders.hash("id")}, "sink": Files("/mart/{{ ds }}")}
    AdaptiveSparkOperator(task_id="total", sql="SELECT * FROM {orders}", **total)


def with_faster_vertices() -> None:
    """Other tries, pools and numbers of subtasks, and a reader of what is published."""
    orders = AdaptiveSparkOperator(
        task_id="orders", source=Files("/lake/orders"), options=VertexOptions(parallelism=2), retries=7
    )
    total = {
        "inputs": {"orders": orders.hash("id")},
        "sink": Files("/mart/{{ ds }}"),
        "options": VertexOptions(max_parallelism=4),
    }
    done = AdaptiveSparkOperator(task_id="total", sql="SELECT * FROM {orders}", pool="spark", **total)
    AdaptiveSparkOperator(task_id="report", inputs={"total": done}, sink=Files("/mart/report"))


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """As it was planned of `as_planned`, all subtasks done."""
    regions = [
        MadeRegion("orders", files=(900, 900)),
        MadeRegion("total", inputs={"orders": Partitioning.HASH}, sink="/mart/2026-01-01"),
    ]
    made = RecordedRun(JobFolder(tmp_path, "daily", "run", "job"), regions, lambda *_: 120, OPTIONS)
    made.write_plan()
    declared = declare(tmp_path, as_planned).get_task("job.plan").declared
    write_json(made.folder.plan_path, replace(made.plan, vertices=tuple(declared)).to_json())
    made.run()
    return made


@pytest.fixture(autouse=True)
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Regions that would be published."""
    regions: list[str] = []

    def publish_region(records: Any, region: str, *_: Any) -> dict[str, dict[str, Any]]:
        regions.append(region)
        sizes = {"files": 1, "rows": 2, "bytes": 3, "replaced": ()}
        return {sink.vertex: dict(sizes) for sink in records.plan.region(region).sinks}

    monkeypatch.setattr("airflow_abs.tables.publishing.publication.publish_region", publish_region)
    return regions


def execute(run: RecordedRun, dag: DAG, task_id: str) -> Any:
    task = dag.get_task(f"job.{task_id}")
    date = pendulum.datetime(2026, 1, 1, tz="UTC")
    dag_run = SimpleNamespace(dag_id="daily", run_id="run", logical_date=date)
    events = {outlet: SimpleNamespace() for outlet in task.outlets}
    return task.execute({"dag_run": dag_run, "outlet_events": events})


def refusal(run: RecordedRun, dag: DAG, task_id: str) -> str:
    with pytest.raises(PlanMismatchError) as caught:
        execute(run, dag, task_id)
    assert not caught.value.restartable
    return str(caught.value)


def test_nothing_goes_to_the_old_path_of_a_sink_that_has_another(
    run: RecordedRun, published: list[str], tmp_path: Path
) -> None:
    assert refusal(run, declare(tmp_path, with_other_sink), "total.commit") == (
        "total: the DAG file has changed since this run was planned: total is declared otherwise; expected the "
        f"declarations that the run was planned from. Nothing was published. {CLEAR}. If you did not edit the file, it "
        "computes a value whenever it is parsed, such as today's date: write a template instead, such as {{ ds }}"
    )
    assert not published


def test_a_sink_that_the_plan_does_not_know_is_not_announced(
    run: RecordedRun, published: list[str], tmp_path: Path
) -> None:
    assert "orders is declared otherwise" in refusal(run, declare(tmp_path, with_more_sinks), "orders.commit")
    assert not published


def test_a_vertex_that_came_upstream_is_named(run: RecordedRun, tmp_path: Path) -> None:
    dag = declare(tmp_path, with_vertex_upstream)
    for task_id in ("raw.decide", "orders.decide", "total.decide", "total.commit"):
        assert "raw is new" in refusal(run, dag, task_id)


def test_a_decision_in_the_triggerer_is_refused_as_well(run: RecordedRun, tmp_path: Path) -> None:
    dag = declare(tmp_path, with_vertex_upstream, start_from_trigger=True)
    trigger = DecideTrigger(**dag.get_task("job.orders.decide").start_trigger_args.trigger_kwargs)
    with pytest.raises(PlanMismatchError, match="raw is new, orders is declared otherwise"):
        trigger._decide("daily", "run")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (with_other_sink, "The DAG file has changed since (total is declared otherwise): clear"),
        (as_planned, "To run a fix, clear"),
    ],
)
def test_a_mistake_in_a_subtask_says_that_clearing_it_alone_repeats_it(
    run: RecordedRun, tmp_path: Path, body: Callable[[], None], found: str
) -> None:
    mapped: Any = declare(tmp_path, body).get_task("job.total.run")
    task = mapped.unmap({"subtask": {"index": 0}})
    instance = SimpleNamespace(dag_id="daily", run_id="run", task_id="job.total.run", map_index=0, try_number=1)
    event = {
        "error": error_to_json(UserCodeError("total: no column amonut")),
        "of": "try 1 of job.total.run[0], run run of dag daily",
    }
    with pytest.raises(AirflowFailException) as caught:
        task.execute_complete({"ti": instance}, event)
    assert str(caught.value) == (
        f"total: no column amonut\nThis subtask ran the step as it was planned. {found} plan as well, and everything "
        "after it"
    )


def test_what_changes_no_rows_changes_no_declaration(run: RecordedRun, published: list[str], tmp_path: Path) -> None:
    execute(run, declare(tmp_path, with_faster_vertices), "total.commit")
    assert published == ["total"]


def test_a_plan_from_before_declarations_were_kept_is_published(
    run: RecordedRun, published: list[str], tmp_path: Path
) -> None:
    run.write_plan()
    execute(run, declare(tmp_path, with_other_sink), "total.commit")
    assert published == ["total"]


def test_a_region_that_the_plan_does_not_have_is_named(run: RecordedRun) -> None:
    with pytest.raises(PlanMismatchError) as caught:
        run.plan.region("raw")
    assert str(caught.value) == (
        "raw: the DAG file declares it, and the plan of this run knows only orders, total; the file has changed since. "
        f"{CLEAR}"
    )
