"""A day of the example job on a place, by Airflow's own services, its output compared with DuckDB's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Protocol

from airflow_abs.demo.airflow_api import AirflowApi
from airflow_abs.demo.generate import DataSpec, generate
from airflow_abs.demo.oracle import verify
from tests.task_instances import wait_for_task

DAYS = tuple(date(2026, 1, day) for day in range(1, 8))
TARGET_BYTES = 80_000
SECONDS = 900.0
"""For a run, on a machine that does much else."""
JOIN = "revenue.enriched.run"
_EXAMPLE = "daily_revenue"


def generate_days(folder: Path) -> None:
    """For as long as nobody asks for more than minutes: the largest has 9,000 orders."""
    generate(DataSpec(folder, DAYS, 0.02, hot_day=DAYS[2]))


class Airflow(Protocol):
    """Services that run, of whatever kind."""

    @property
    def api(self) -> AirflowApi: ...


@dataclass(frozen=True, slots=True)
class Daily:
    """Airflow's services with the DAG `dag_id`, which writes what the example `daily_revenue` does.

    Args:
        data: what `generate_days` made.
        mart: where the DAG publishes, a folder per day.
        days: of the data.
    """

    airflow: Airflow
    data: Path
    mart: Path
    dag_id: str = _EXAMPLE
    days: tuple[date, ...] = DAYS

    @property
    def api(self) -> AirflowApi:
        return self.airflow.api

    def start(self, day: int, run_id: str = "", dag_id: str = "") -> str:
        self.api.wait_for_dag(dag_id or self.dag_id, SECONDS)
        logical = datetime.combine(self.days[day], datetime.min.time(), UTC) + timedelta(days=1)
        return self.api.trigger_run(dag_id or self.dag_id, logical, run_id=run_id or f"day-{day}")

    def wait_for(self, run_id: str, task_id: str, *states: str, map_index: int = -1) -> int:
        """The number of its try."""
        return wait_for_task(self.api, self.dag_id, run_id, task_id, set(states), SECONDS, map_index).try_number

    def wait_for_join(self, run_id: str) -> None:
        """Until its first range is under way."""
        self.wait_for(run_id, JOIN, "running", "deferred", map_index=0)

    def ends_right(self, run_id: str, day: int) -> None:
        state = self.api.wait_for_run(self.dag_id, run_id, SECONDS)
        assert state == "success", self.told(run_id)
        verdict = verify(_EXAMPLE, self.days[day], self.data, self.mart / f"ds={self.days[day]}")
        assert verdict.problem is None, verdict.problem
        print(f"{run_id}: {verdict.rows} rows, as DuckDB has them; {self.retries(run_id)} retries", flush=True)

    def told(self, run_id: str, dag_id: str = "") -> list[str]:
        """What its failed tasks say."""
        dag_id = dag_id or self.dag_id
        failed = [each for each in self.api.task_instances(dag_id, run_id) if each.state == "failed"]
        logs = (self.api.task_log(dag_id, run_id, each.task_id, each.map_index, each.try_number) for each in failed)
        return [log[-8000:] for log in logs]

    def tries(self, run_id: str, task_id: str) -> dict[int, int]:
        """Of each range of a mapped task."""
        found = self.api.task_instances(self.dag_id, run_id)
        return {each.map_index: each.try_number for each in found if each.task_id == task_id}

    def retries(self, run_id: str) -> int:
        return sum(max(0, each.try_number - 1) for each in self.api.task_instances(self.dag_id, run_id))
