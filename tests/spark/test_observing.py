"""What Spark counted of a write, from the metrics that it sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_abs.spark.connect.protocol import protos
from airflow_abs.spark.observing import Observed, read_observed

STEP: Any = SimpleNamespace(row_hash="hash(*)", rows_column=None, sampled=(), expectations=())


def metrics(*numbers: int) -> dict[str, bytes]:
    sent = protos().ExecutePlanResponse.ObservedMetrics(name="write")
    for place, number in reversed(list(enumerate(numbers))):  # Spark 4.0 answers in any order
        sent.keys.append(str(place))
        sent.values.add(long=number)
    return {"write": sent.SerializeToString()}


def test_rows_and_checksum_are_in_the_order_in_which_they_were_asked_for() -> None:
    assert read_observed(metrics(3, -17), "write", STEP) == Observed(3, -17)


def test_a_write_that_spark_did_not_count_is_not_taken_for_one_of_no_rows() -> None:
    assert read_observed({}, "write", STEP) == Observed()
    assert read_observed(metrics(), "write", STEP) == Observed()  # Spark 4.1's way to say so


def test_a_sample_is_counted_after_the_rows_that_were_combined() -> None:
    step = SimpleNamespace(**{**vars(STEP), "rows_column": "rows", "sampled": ("k",)})
    assert read_observed(metrics(3, -17, 40, 9, 2), "write", step) == Observed(3, -17, 40, (9, 2))
