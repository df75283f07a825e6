"""Copies a run of a DAG in Airflow's database, with some of its mapped tasks widened: nothing of it has to run.

python copy_run.py DAG_ID RUN_ID NEW_RUN_ID DAYS TASK_ID=COUNT ...
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from sqlalchemy import insert, select
from uuid6 import uuid7


def copy_run(dag_id: str, run_id: str, new_run_id: str, days: int, counts: Mapping[str, int]) -> None:
    """`days` is how much later the copy is."""
    runs, tasks = DagRun.__table__, TaskInstance.__table__
    with create_session() as session:
        found = session.execute(select(runs).where(runs.c.dag_id == dag_id, runs.c.run_id == run_id)).one()
        later = {name: found._mapping[name] + timedelta(days=days) for name in ("logical_date", "run_after")}
        session.execute(insert(runs).values({**_without_id(found), **later, "run_id": new_run_id}))
        chosen = select(tasks).where(tasks.c.dag_id == dag_id, tasks.c.run_id == run_id, tasks.c.map_index < 1)
        rows = [
            {**_without_id(row), "id": uuid7(), "run_id": new_run_id, "map_index": index}
            for row in session.execute(chosen)
            for index in (range(counts.get(row.task_id, 1)) if row.map_index == 0 else [-1])
        ]
        session.execute(insert(tasks), rows)


def _without_id(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row._mapping.items() if name != "id"}


if __name__ == "__main__":
    dag_id, run_id, new_run_id, days, *widened = sys.argv[1:]
    copy_run(
        dag_id,
        run_id,
        new_run_id,
        int(days),
        {task: int(count) for task, _, count in (each.partition("=") for each in widened)},
    )
