"""What may be expected, and what is said of anything else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.core.expect.expectations import (
    Expect,
    Expectation,
    RowCountChange,
    Unique,
    read_expectations,
    unique_keys,
)

DECLARED = {
    "positive": "amount > 0",
    "known": Expect("region IS NOT NULL", on_failure="warn", tolerance=0.01),
    "one_per_order": Unique("order_id", "line"),
    "as_usual": RowCountChange(0.5, on_failure="warn"),
}


def test_a_text_is_a_condition_that_every_row_has_to_meet() -> None:
    assert read_expectations("orders", DECLARED) == (
        Expectation("positive", "fail", 0.0, condition="amount > 0"),
        Expectation("known", "warn", 0.01, condition="region IS NOT NULL"),
        Expectation("one_per_order", "fail", 0.0, columns=("order_id", "line")),
        Expectation("as_usual", "warn", 0.5),
    )


def test_each_says_what_it_is() -> None:
    found = read_expectations("orders", DECLARED)
    assert [each.what for each in found] == [
        "amount > 0",
        "region IS NOT NULL",
        "Unique(order_id, line)",
        "RowCountChange",
    ]
    assert [each.is_row_count for each in found] == [False, False, False, True]
    assert unique_keys(found) == (found[2],)


def test_they_are_plain_values_on_the_way_to_plan() -> None:
    found = read_expectations("orders", DECLARED)
    assert tuple(Expectation.from_json(asdict(each)) for each in found) == found


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Expect(" "), "the condition is ' '; expected SQL, such as 'amount > 0'"),
        (lambda: Expect("a", on_failure="stop"), "on_failure is 'stop'; expected 'fail' or 'warn'"),
        (lambda: Expect("a", tolerance=1.0), "tolerance is 1.0; expected a share of the rows from 0 up to 1"),
        (lambda: Expect("a", tolerance=-0.1), "tolerance is -0.1"),
        (lambda: Expect("a", tolerance=True), "tolerance is True"),
        (Unique, "expected names of columns, such as Unique\\('order_id'\\)"),
        (lambda: Unique("id", tolerance=2), "tolerance is 2"),
        (lambda: RowCountChange(-1), "tolerance is -1; expected a share of at least 0"),
    ],
)
def test_a_value_out_of_its_bounds_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"positive": 3}, "vertex 'orders': expectation 'positive' is 3; expected a condition in SQL such as"),
        ({"positive": ""}, "vertex 'orders': expectation 'positive': Expect: the condition is ''"),
        ({"": "a"}, "vertex 'orders': an expectation is named ''; expected a string such as 'positive'"),
    ],
)
def test_anything_else_is_refused_with_the_name_of_the_vertex(declared: Any, message: str) -> None:
    with pytest.raises(JobGraphError, match=message):
        read_expectations("orders", declared)
