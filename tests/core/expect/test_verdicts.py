"""Counts against tolerances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.expect.expectations import Expectation
from airflow_abs.core.expect.verdicts import Tally, Verdict, add_up

POSITIVE = Expectation("positive", "fail", 0.01, condition="amount > 0")
KEY = Expectation("one", "warn", 0.0, columns=("id",))
USUAL = Expectation("usual", "fail", 0.5)


@pytest.mark.parametrize(("failed", "outcome"), [(0, "met"), (10, "met"), (11, "failed")])
def test_the_tolerance_is_a_share_of_all_rows_and_itself_allowed(failed: int, outcome: str) -> None:
    verdict = Verdict("orders", POSITIVE, 1000, Tally(failed))  # 1 % of 1000 rows are 10
    assert (verdict.outcome, verdict.stops) == (outcome, outcome == "failed")


def test_the_counts_are_told_with_share_nulls_and_tolerance() -> None:
    assert str(Verdict("orders", POSITIVE, 1000, Tally(12, 2))) == (
        "orders expects positive (amount > 0): failed, 12 of 1,000 rows fail (1.2 %, 2 of them because it is NULL); "
        "tolerance 1 %"
    )
    assert str(Verdict("orders", KEY, 4_000_000, Tally(1))) == (
        "orders expects one (Unique(id)): warning, 1 of 4,000,000 rows repeat a key (2.5e-05 %); tolerance 0 %"
    )


def test_a_warning_stops_nothing() -> None:
    assert not Verdict("orders", KEY, 10, Tally(5)).stops


def test_no_rows_fail_nothing() -> None:
    assert Verdict("orders", POSITIVE, 0).holds


@pytest.mark.parametrize(
    ("rows", "before", "holds"),
    [
        *((50, 100, True), (49, 100, False), (150, 100, True), (151, 100, False), (0, 100, False)),
        *((7, None, True), (7, 0, True)),
    ],
)
def test_a_row_count_may_change_by_its_tolerance_in_both_directions(rows: int, before: int | None, holds: bool) -> None:
    assert Verdict("mart", USUAL, rows, rows_before=before).holds is holds


def test_a_row_count_tells_what_it_was_compared_with() -> None:
    assert Verdict("mart", USUAL, 40, rows_before=100).found == ("40 rows after 100, changed by 60 %; tolerance 50 %")
    assert Verdict("mart", USUAL, 40).found == "40 rows, and no earlier run with rows to compare with"


@given(st.lists(st.builds(Tally, st.integers(0, 10**9), st.integers(0, 10**9))))
def test_parts_add_up_to_the_whole_whatever_their_order(parts: list[Tally]) -> None:
    whole = add_up(parts)
    assert whole == add_up(reversed(parts))
    assert (whole.failed, whole.unknown) == (sum(p.failed for p in parts), sum(p.unknown for p in parts))


def test_plain_values_say_everything() -> None:
    assert Verdict("orders", POSITIVE, 100, Tally(3, 1)).to_json() == {
        "vertex": "orders",
        "name": "positive",
        "what": "amount > 0",
        "on_failure": "fail",
        "tolerance": 0.01,
        "outcome": "failed",
        "rows": 100,
        "failed": 3,
        "unknown": 1,
        "rows_before": None,
        "found": "3 of 100 rows fail (3 %, 1 of them because it is NULL); tolerance 1 %",
    }
