"""A DAG run and where people look at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from airflow_abs.demo.services import AirflowServices
from tests.waiting import SECONDS


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """One DAG run; `plan` is the address of its tab, `page` that of the page in it."""

    airflow: AirflowServices
    dag_id: str
    run_id: str

    @property
    def plan(self) -> str:
        return f"{self.airflow.url}/dags/{self.dag_id}/runs/{self.run_id}/plugin/adaptive-plan"

    @property
    def page(self) -> str:
        return f"{self.airflow.url}/adaptive_spark/plan?dag_id={self.dag_id}&run_id={self.run_id}"

    def wait(self) -> str:
        return self.airflow.api.wait_for_run(self.dag_id, self.run_id, SECONDS)


StartRun = Callable[[str, int], WatchedRun]
