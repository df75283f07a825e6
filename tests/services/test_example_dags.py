"""Every example DAG through real Airflow services and a real Spark, its output compared with DuckDB's."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from airflow_abs.cli.commands.runs import find_folders
from airflow_abs.cli.output.terminal import Terminal
from airflow_abs.core.simulate.fit import fit_costs
from airflow_abs.core.simulate.growth import Scenario
from airflow_abs.core.simulate.simulation import simulate
from airflow_abs.demo.killing import SubtaskKiller
from airflow_abs.demo.oracle import QUERIES
from airflow_abs.demo.run import run_day
from airflow_abs.demo.run_report import RunReport
from airflow_abs.demo.services import AirflowServices
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.run_reading import read_run
from tests.waiting import SECONDS

pytestmark = [pytest.mark.services, pytest.mark.spark]

# Beside the one that `daily_runs` has run: which day, and the least fan-out then. The DAG in TaskFlow style declares
# the same tasks as `daily_revenue` (a test compares), so its smallest day is enough.
ELSEWHERE = {"taskflow_revenue": (0, 1), "diamond": (2, 3), "pipelined": (2, 3)}


def test_every_example_dag_has_its_query() -> None:
    assert {"daily_revenue", *ELSEWHERE} == set(QUERIES)


@pytest.mark.parametrize(("dag_id", "day", "fan_out"), [(name, *rest) for name, rest in ELSEWHERE.items()])
def test_every_example_dag_gives_the_rows_of_its_query(
    dag_id: str, day: int, fan_out: int, airflow: AirflowServices, folder: Path, days: tuple[date, ...]
) -> None:
    airflow.api.wait_for_dag(dag_id, SECONDS)
    run = run_day(dag_id, days[day], folder, airflow.api, Terminal())
    assert run.problem is None
    assert run.rows > 0
    assert max(vertex.subtasks for vertex in run.vertices) >= fan_out


@pytest.mark.sample
def test_a_day_whose_worker_is_killed_repeats_that_subtask_alone_and_gives_the_rows_of_its_query(
    airflow: AirflowServices, folder: Path, days: tuple[date, ...]
) -> None:
    airflow.api.wait_for_dag("diamond", SECONDS)
    killer = SubtaskKiller([f"profiles.{vertex}.run" for vertex in ("orders", "spend", "latest", "profile")])
    run = run_day("diamond", days[1], folder, airflow.api, Terminal(), look=killer.look)
    assert run.problem is None
    assert killer.killed is not None
    subtasks = [each for each in airflow.api.task_instances("diamond", run.run_id) if each.task_id.endswith(".run")]
    again = [(each.task_id, each.map_index) for each in subtasks if each.try_number > 1]
    assert again == [(killer.killed.task_id, killer.killed.map_index)]


@pytest.mark.sample
def test_the_fan_out_follows_the_volume_of_the_day(daily_runs: tuple[RunReport, ...], folder: Path) -> None:
    assert [run.problem for run in daily_runs] == [None] * 3
    assert all(run.rows > 0 for run in daily_runs)
    orders = [next(vertex for vertex in run.vertices if vertex.vertex == "orders") for run in daily_runs]
    assert orders[0].bytes_in * 3 < orders[1].bytes_in
    assert orders[0].subtasks < orders[1].subtasks
    assert max(vertex.subtasks for vertex in daily_runs[2].vertices) >= 3
    assert_simulated_as_it_ran(folder / "exchange", f"daily_revenue/{daily_runs[2].run_id}")


def assert_simulated_as_it_ran(exchange: Path, name: str) -> None:
    """Real tasks record all that a simulation needs: the run, with a factor of 1, has the same decisions."""
    (found,) = find_folders(name, str(exchange))
    job = recorded_job(read_run(found))
    told = simulate(job, fit_costs([job]), Scenario())
    assert [region.decision for region in told.regions] == [region.decision for region in job.regions]
    assert told.wall > max(region.end for region in job.regions) / 2 > 0
