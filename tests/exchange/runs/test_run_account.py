"""Where the seconds went, from the exchange alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_abs.exchange.runs.run_account import describe_seconds
from airflow_abs.exchange.runs.run_reading import read_run
from tests.recorded_runs import revenue_run


def test_seconds_are_told_from_the_start_of_plan_to_the_last_operation(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    # Planned after 10 s. orders[k] begins k / 4 s later and takes 1.5 + k / 10 s: orders[0] and customers[0] take both
    # slots at 10.0. The last is orders[3], from 10.75 to 12.55.
    told = describe_seconds(read_run(run.folder))
    assert told == "12.5 s: 10.0 s planning, deciding and Airflow, 1.8 s Spark in orders[3], 0.8 s waiting for a slot"


def test_a_run_of_which_nobody_knows_when_it_began_has_no_account(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    assert describe_seconds(read_run(run.folder)) is None
    run.run("orders")
    view = read_run(run.folder)
    assert describe_seconds(replace(view, plan=replace(view.plan, began=None))) is None
