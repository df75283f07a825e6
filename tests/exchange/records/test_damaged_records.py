"""What a damaged record says: the file, the field, and what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.exchange.storage.whole_files import decode_json, encode_json
from tests.exchange.records.stored_records import (
    READERS,
    Way,
    decide_again,
    error_of,
    replaced,
    view,
    without,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", READERS)
def test_the_whole_record_is_read(copied: Path, name: str) -> None:
    folder = JobFolder(copied / "exchange", "dag", "run", "job")
    assert [error_of(use, folder) for use in (READERS[name], view, decide_again)] == [None] * 3


REQUIRED = {
    "exchange/dag/run/job/plan.json": ["id", "regions", "options", "slots", "spark_version"],
    "exchange/dag/run/job/orders/decision.json": [
        "plan", "decision", "files", "producers", "producer_decisions", "measured",
    ],
    "exchange/dag/run/job/orders/subtask-0/manifest.json": [
        "region", "index", "attempt", "decision", "seconds", "results",
    ],
    "exchange/dag/_history/job.json": ["runs"],
    "exchange/dag/run/job/server.json": ["key", "application", "submitted", "host", "port"],
    "mart/_airflow_abs_commit": ["entries"],
}  # fmt: skip


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in REQUIRED.items() for key in keys])
def test_a_missing_field_is_named_with_the_file_and_what_to_do(copied: Path, name: str, key: str) -> None:
    whole = (copied / name).read_bytes()
    payload = decode_json(whole, where="")
    (copied / name).write_bytes(encode_json(without(payload, (key,))))
    try:
        with pytest.raises(
            DamagedFileError, match=f"{name}: Object missing required field `{key}`; .*: clear"
        ) as caught:
            READERS[name](JobFolder(copied / "exchange", "dag", "run", "job"))
        assert caught.value.path == str(copied / name)
    finally:
        (copied / name).write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "way", "value", "message"),
    [
        ("plan.json", ("options", "strategy"), "best", r"options: Invalid enum value 'best' - at `\$.strategy`"),
        (
            "plan.json",
            ("regions", 2, "inputs", 0, "region"),
            "nowhere",
            "'enriched' reads 'orders.*', which no step of",
        ),
        ("plan.json", ("regions", 3, "sinks", 0, "result"), "x", "region 'by_region' publishes result 'x', which no"),
        ("plan.json", ("regions", 3, "steps", 0, "local"), {"a": "x"}, "of 'by_region' reads 'x', which none before"),
        ("plan.json", ("regions", 1, "name"), "orders", "there are two regions 'orders'"),
        ("orders/decision.json", ("decision", "version"), 9, "expected format version 1, found 9"),
        ("orders/decision.json", ("decision", "parallelism"), "2", r"decision: Expected `int`, got `str` - at"),
        ("orders/decision.json", ("decision", "parallelism"), 5, "it has 2 subtasks at a parallelism of 5"),
        ("orders/decision.json", ("files",), {}, r"subtask 0 has splits of \['orders.source'\], expected \[\]"),
        ("orders/decision.json", ("files", "orders.source"), [], r"reads splits of orders.source outside \[0, 0\)"),
        (
            "orders/decision.json",
            ("decision", "inputs", 0, "name"),
            "x",
            r"from sources \['x'\], expected \['orders.source'",
        ),
        ("enriched/decision.json", ("producer_decisions",), {}, r"are of \[\], expected \['customers', 'orders'\]"),
    ],
)
def test_a_field_that_leads_nowhere_is_named(copied: Path, name: str, way: Way, value: Any, message: str) -> None:
    name = f"exchange/dag/run/job/{name}"
    whole = (copied / name).read_bytes()
    (copied / name).write_bytes(encode_json(replaced(decode_json(whole, where=""), way, value)))
    try:
        with pytest.raises(DamagedFileError, match=message):
            READERS[name](JobFolder(copied / "exchange", "dag", "run", "job"))
    finally:
        (copied / name).write_bytes(whole)


def test_a_decision_that_does_not_fit_the_plan_is_a_problem_of_its_region(copied: Path) -> None:
    file = copied / "exchange/dag/run/job/enriched/decision.json"
    whole = file.read_bytes()
    payload = decode_json(whole, where="")
    for changed, message in [
        (replaced(payload, ("measured", "enriched.orders", 0), 1), "'enriched.orders' by producer does not add up"),
        (
            without(payload, ("measured", "enriched.customers")),
            "it lacks 'enriched.customers', which the plan",
        ),
        (
            replaced(payload, ("measured", "enriched.customers"), [1]),
            "enriched.customers",
        ),
    ]:
        file.write_bytes(encode_json(changed))
        problems = read_run(JobFolder(copied / "exchange", "dag", "run", "job")).region("enriched").problems
        assert any(message in problem for problem in problems), problems
    file.write_bytes(whole)
