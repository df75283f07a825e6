"""A region that runs inside another one: its tasks say so and end at once, without Spark, or are skipped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import DownstreamTasksSkipped

from airflow_abs import AdaptiveSparkJob, AdaptiveSparkOperator, Files
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.operators.decide import DecideOperator
from tests.recorded_runs import OPTIONS


def test_decide_gives_it_one_subtask_and_that_one_has_nothing_to_do(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    write_json(folder.plan_path, JobPlan("id", (), OPTIONS, 2, "4.2.0", {"orders": "by_region"}).to_json())
    with DAG("dag", schedule=None):
        task = DecideOperator(
            task_id="decide", region="orders", producers={}, exchange=str(tmp_path), job="job", conn_id="nowhere"
        )
    context: Any = {"dag_run": SimpleNamespace(dag_id="dag", run_id="run"), "ti": None}
    ((mapped,),) = [[each["subtask"] for each in task.execute(context)]]
    assert (mapped["label"], mapped["subtasks"], mapped["bytes"]) == ("fused into by_region", 1, 0)
    run = SubtaskRun("nowhere", str(tmp_path), "dag", "run", "job", "job.orders.run", 0, "orders", 1, mapped, 600.0)
    assert asyncio.run(run.run()) == {
        "index": 0, "subtasks": 1, "decision": "", "fused_into": "by_region", "results": {}
    }  # fmt: skip


def test_decide_skips_the_run_and_the_idle_regions_behind_it(tmp_path: Path) -> None:
    with DAG("dag", schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC")) as dag:
        with AdaptiveSparkJob("job", exchange=str(tmp_path)):
            orders = AdaptiveSparkOperator(task_id="orders", source=Files("/lake/orders"))
            customers = AdaptiveSparkOperator(task_id="customers", source=Files("/lake/customers"))
            inputs = {"orders": orders.hash("key"), "customers": customers.hash("key")}
            joined = AdaptiveSparkOperator(
                task_id="joined", inputs=inputs, sql="SELECT * FROM {orders} JOIN {customers} USING (key)"
            )
            sums = AdaptiveSparkOperator(
                task_id="sums", inputs={"rows": joined.hash("key")}, sql="SELECT key FROM {rows}"
            )
            AdaptiveSparkOperator(
                task_id="last", inputs={"rows": sums.hash("key")}, sql="SELECT key FROM {rows}", sink=Files("/mart")
            )
    fused = {"customers": "last", "joined": "last", "sums": "last"}
    folder = JobFolder(tmp_path, "dag", "run", "job")
    write_json(folder.plan_path, JobPlan("id", (), OPTIONS, 2, "4.2.0", fused).to_json())
    pushed: dict[str, Any] = {}
    instance = SimpleNamespace(xcom_push=lambda key, value: pushed.update({key: value}), map_index=-1)
    task: Any = dag.get_task("job.joined.decide")
    task.declarations = {}
    with pytest.raises(DownstreamTasksSkipped) as skipped:
        task.execute({"dag_run": SimpleNamespace(dag_id="dag", run_id="run"), "ti": instance})
    assert skipped.value.tasks == ["job.joined.run", "job.sums.decide", "job.sums.run"]
    assert [each["subtask"]["fused_into"] for each in pushed["return_value"]] == ["last"]
