from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from airflow_abs.core.durability.prediction import Prediction, RegionHistory
from airflow_abs.exchange.records.tries import TryRecord, write_try
from airflow_abs.exchange.runs.past_run import past_run
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.spark.errors import TransientSparkError, UserCodeError, would_happen_again
from tests.recorded_runs import BEGAN, RecordedRun, revenue_run

DAY = "2026-01-03"


def record(run: RecordedRun, index: int, number: int, state: str, error: str) -> None:
    write_try(
        run.folder, "orders", index, TryRecord(number, run.stored["orders"].digest, number, "", state, error, 1.0)
    )


def test_a_run_without_failures_is_kept_region_by_region(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    view = read_run(run.folder)
    past = past_run(view, DAY, 7.0, would_happen_again)
    assert (past.run_id, past.date, past.began) == ("manual__2026-01-03", DAY, BEGAN)
    assert past.source_bytes == {"orders": 4000, "customers": 700}
    assert [region.regions for region in past.regions] == [("orders",), ("customers",), ("enriched",), ("by_region",)]
    # four subtasks begin after 0, 0.25, 0.5 and 0.75 s and take 1.5, 1.6, 1.7 and 1.8 s
    orders = view.region("orders")
    columns = view.plan.region("orders").digest_columns()
    assert past.regions[0] == RegionHistory(
        ("orders",), 4000, orders.bytes_out or 0, orders.rows or 0, 0.75 + 1.8, columns=columns
    )
    assert columns != view.plan.region("customers").digest_columns()


def test_a_failed_run_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.decide("orders")
    for index in (0, 1):
        run.commit("orders", index)
    run.commit("orders", 2, attempt=2)
    record(run, 2, 1, "failed", TransientSparkError.__name__)
    record(run, 2, 2, "committed", "")
    record(run, 3, 1, "running", "")  # its worker was killed
    record(run, 3, 2, "failed", UserCodeError.__name__)
    (orders,) = past_run(read_run(run.folder), DAY, 7.0, would_happen_again).regions
    assert (orders.is_whole, orders.machine_failures, orders.data_failures) == (False, 2, 1)
    assert orders.seconds == 0.5 + 1.7


def test_where_nobody_knows_when_subtasks_began_they_count_as_evenly_spread(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.waited = lambda index: None if index == 1 else 0.0  # type: ignore[assignment, return-value]
    run.run("orders")
    (orders,) = past_run(read_run(run.folder), DAY, 7.0, would_happen_again).regions
    assert orders.seconds == 3.3  # 1.5 + 1.6 + 1.7 + 1.8 on two slots


def test_a_region_says_which_declared_ones_ran_in_it(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    view = read_run(run.folder)
    fused = replace(view, plan=replace(view.plan, fused={"a": "b", "b": "orders", "c": "customers"}))
    regions = [region.regions for region in past_run(fused, DAY, 7.0, would_happen_again).regions]
    assert regions == [("a", "b", "orders"), ("c", "customers"), ("enriched",), ("by_region",)]


def test_a_region_says_what_was_predicted_of_all_that_ran_in_it(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    view = read_run(run.folder)
    predictions = {"a": Prediction(2.0, 30, 20), "orders": Prediction(3.0, 20, 10), "customers": Prediction(1.0, 5, 4)}
    fused = replace(view, plan=replace(view.plan, fused={"a": "orders"}, predictions=predictions))
    orders, customers, enriched, _ = past_run(fused, DAY, 7.0, would_happen_again).regions
    assert (orders.predicted_seconds, orders.predicted_output_bytes) == (5.0, 10)
    assert (customers.predicted_seconds, customers.predicted_output_bytes) == (1.0, 4)
    assert (enriched.predicted_seconds, enriched.predicted_output_bytes) == (None, None)


def test_what_was_predicted_stands_beside_what_came(tmp_path: Path) -> None:
    run = revenue_run(tmp_path)
    run.run()
    said = {"orders": Prediction(2.0, 4000, 1500, True), "a": Prediction(1.5, 9, 9), "b": Prediction(0.25, 9, 9, True)}
    view = read_run(run.folder)
    told = replace(view, plan=replace(view.plan, fused={"a": "b", "b": "orders"}, predictions=said))
    orders, customers, *_ = past_run(told, DAY, 7.0, would_happen_again).regions
    # of a region that took others in, the seconds of all and the bytes of the last
    assert (orders.predicted_seconds, orders.predicted_output_bytes) == (3.75, 1500)
    assert (customers.predicted_seconds, customers.predicted_output_bytes) == (None, None)
    assert told.plan.prediction_of("orders") == Prediction(3.75, 4000, 1500, from_history=False)
