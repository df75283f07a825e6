"""People who clear less of a failed run than they should: each task says what else, and no mixture is published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.services import AirflowServices
from tests.task_instances import clear_task
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]

DAG = "partly_cleared"


@dataclass(slots=True)
class Cleared:
    """A run of three files."""

    airflow: AirflowServices
    folder: Path
    run_id: str = ""

    def write_file(self, part: int, amount: str) -> None:
        lake = self.folder / "data" / DAG
        lake.mkdir(parents=True, exist_ok=True)
        query = f"SELECT range AS number, {amount} AS amount FROM range(300) WHERE range % 3 = {part}"
        duckdb.sql(f"COPY ({query}) TO '{lake}/part-{part}.parquet'")

    def run(self, day: int, amount: str) -> str:
        """How it ends."""
        for part in range(3):
            self.write_file(part, amount)
        self.airflow.api.wait_for_dag(DAG, SECONDS)
        self.run_id = self.airflow.api.trigger_run(DAG, datetime(2026, 1, day, tzinfo=UTC))
        return self.await_end()

    def await_end(self) -> str:
        return self.airflow.api.wait_for_run(DAG, self.run_id, SECONDS)

    def failed(self) -> list[SubtaskState]:
        return [each for each in self.airflow.api.task_instances(DAG, self.run_id) if each.state == "failed"]

    def clear(self, *tasks: tuple[str, int], downstream: bool = False) -> str:
        """How the run ends then, and what the log of a task that has failed says."""
        for task_id, map_index in tasks:
            clear_task(self.airflow.api, DAG, self.run_id, f"job.{task_id}", map_index, downstream=downstream)
        found = [self.await_end()]
        found += [
            self.airflow.api.task_log(DAG, self.run_id, each.task_id, each.map_index, each.try_number)
            for each in self.failed()
        ]
        return "\n".join(found)

    def published(self, name: str = "first") -> list[tuple[int, int]]:
        if not (self.folder / "mart" / f"{DAG}_{name}").exists():
            return []
        query = f"SELECT amount, count(*) FROM '{self.folder}/mart/{DAG}_{name}/*.parquet' GROUP BY 1 ORDER BY 1"
        return duckdb.sql(query).fetchall()


@pytest.fixture
def cleared(airflow: AirflowServices, folder: Path) -> Iterator[Cleared]:
    made = Cleared(airflow, folder)
    dag = folder / "dags" / f"{DAG}.py"
    before = dag.read_text()
    yield made
    dag.write_text(before)


def test_a_file_that_is_corrected_by_hand_is_published_with_no_row_of_before(cleared: Cleared) -> None:
    assert cleared.run(1, "if(range = 100, 'oops', '1')") == "failed"
    (subtask,) = cleared.failed()
    assert subtask.task_id == "job.typed.run"
    failed = ("typed.run", subtask.map_index)
    cleared.write_file(1, "'20'")
    last = (("typed.commit", -1), ("release", -1))
    assert "Clear raw.decide and everything after it" in cleared.clear(("raw.run", 1), failed, *last)
    log = cleared.clear(("raw.decide", -1), ("raw.run", 1), failed, *last)
    assert "counts now; clear typed.decide and everything after it" in log
    log = cleared.clear(("typed.decide", -1), downstream=True)
    assert "the subtasks of raw ran under 2 decisions" in log
    assert "expected one; clear all subtasks of raw" in log
    assert cleared.published() == []
    assert cleared.clear(("raw.run", -1), downstream=True) == "success"
    assert cleared.published() == [(1, 200), (20, 100)]


def test_an_edited_dag_publishes_nothing_until_plan_is_cleared(cleared: Cleared) -> None:
    assert cleared.run(2, "'1'") == "success"
    dag = cleared.folder / "dags" / f"{DAG}.py"
    dag.write_text(dag.read_text().replace(f"{DAG}_first", f"{DAG}_second"))
    log = cleared.clear(("typed.commit", -1), ("release", -1))
    assert "Clear plan as well, and everything after it" in log
    assert cleared.published("second") == []
    assert cleared.clear(("plan", -1), downstream=True) == "success"
    assert cleared.published("second") == [(1, 300)]
