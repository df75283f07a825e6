"""Every example DAG through real Airflow services and a real Spark, its output compared with DuckDB's."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from airflow_abs.cli.commands.runs import find_folders
from airflow_abs.cli.output.terminal import Terminal
from airflow_abs.core.simulate.fit import fit_costs
from airflow_abs.core.simulate.simulation import Scenario, simulate
from airflow_abs.demo.oracle import QUERIES
from airflow_abs.demo.run import run_day
from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.run_reading import read_run

pytestmark = [pytest.mark.services, pytest.mark.spark]

SECONDS = 500.0


@pytest.mark.parametrize("dag_id", QUERIES)
def test_every_example_dag_gives_the_rows_of_its_query_on_a_hot_day(
    dag_id: str, airflow: AirflowServices, folder: Path, days: tuple[date, ...]
) -> None:
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run = run_day(dag_id, days[2], folder, airflow.api, Terminal())
    assert run.problem is None
    assert run.rows > 0
    assert max(vertex.subtasks for vertex in run.vertices) >= 3


def test_the_fan_out_follows_the_volume_of_the_day(
    airflow: AirflowServices, folder: Path, days: tuple[date, ...]
) -> None:
    airflow.api.wait_for_dag("daily_revenue", SECONDS)
    runs = [run_day("daily_revenue", day, folder, airflow.api, Terminal()) for day in days[:2]]
    assert [run.problem for run in runs] == [None, None]
    orders = [next(vertex for vertex in run.vertices if vertex.vertex == "orders") for run in runs]
    assert orders[0].bytes_in * 3 < orders[1].bytes_in
    assert orders[0].subtasks < orders[1].subtasks
    assert_simulated_as_it_ran(folder / "exchange", "daily_revenue")


def assert_simulated_as_it_ran(exchange: Path, dag_id: str) -> None:
    """Real tasks record all that a simulation needs: the newest run, with a factor of 1, has the same decisions."""
    (found,) = find_folders(dag_id, str(exchange))
    job = recorded_job(read_run(found))
    told = simulate(job, fit_costs([job]), Scenario())
    assert [region.decision for region in told.regions] == [region.decision for region in job.regions]
    assert told.wall > max(region.end for region in job.regions) / 2 > 0
