"""A region that runs inside another one: its tasks say so and end at once, without Spark."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.plan import JobPlan
from airflow_abs.exchange.storage.whole_files import write_json
from airflow_abs.execution.subtask import SubtaskRun
from airflow_abs.operators.decide import DecideOperator
from tests.recorded_runs import OPTIONS


def test_decide_gives_it_one_subtask_and_that_one_has_nothing_to_do(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    write_json(folder.plan_path, JobPlan("id", (), OPTIONS, 2, "4.2.0", {"orders": "by_region"}).to_json())
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
