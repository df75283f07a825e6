"""What a source holds as a rule, and what is told of a day on which it holds something else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_abs.core.durability.prediction import JobHistory, RunHistory
from airflow_abs.core.durability.strange_day import UsualBytes, usual_bytes, weekday_of

MIB = 2**20
MONDAY = "2026-01-26T06:00:00+00:00"


def days(*sizes: int, first: int = 1, step: int = 1) -> JobHistory:
    """Runs of the days of January 2026 from `first` on; the fifth is a Monday."""
    dates = [f"2026-01-{first + step * number:02}" for number in range(len(sizes))]
    return JobHistory(
        tuple(
            RunHistory(day, (), str(day), date, {"orders": size})
            for day, (date, size) in enumerate(zip(dates, sizes, strict=True))
        )
    )


def test_three_mondays_say_what_is_usual_on_a_monday() -> None:
    history = JobHistory((*days(9, 9, 9, 9).runs, *days(100, 300, 120, first=5, step=7).runs))
    assert usual_bytes(replace(history, today=MONDAY)) == {"orders": UsualBytes(120, 100, 300, 3, "Monday")}


def test_fewer_mondays_leave_it_to_all_days() -> None:
    history = JobHistory((*days(10, 20).runs, *days(30, 40, first=5, step=7).runs))
    assert usual_bytes(replace(history, today=MONDAY)) == {"orders": UsualBytes(25, 10, 40, 4)}
    assert usual_bytes(replace(history, today="no date")) == {"orders": UsualBytes(25, 10, 40, 4)}


def test_two_days_say_nothing() -> None:
    assert usual_bytes(replace(days(10, 20), today=MONDAY)) == {}


@pytest.mark.parametrize(
    ("size", "told"),
    [
        (1200, "orders is 6.0 times its Monday median: 1.2 GiB"),
        (20_000, "orders is 100 times its Monday median: 19.5 GiB"),
        (10, "orders is 0.1 times its Monday median: 10.0 MiB"),
        (0, "orders is 0.0 times its Monday median: 0 B"),
        (599, None),  # below three times
        (67, None),  # above a third
    ],
)
def test_three_times_the_median_or_a_third_is_told(size: int, told: str | None) -> None:
    usual = UsualBytes(200 * MIB, 180 * MIB, 350 * MIB, 4, "Monday")
    span = "instead of 200.0 MiB (4 Mondays: 180.0 MiB to 350.0 MiB)"
    assert usual.describe_strange("orders", size * MIB) == (told and f"{told} {span}")


def test_what_was_seen_before_is_not_strange() -> None:
    assert UsualBytes(200, 10, 900, 30).describe_strange("orders", 900) is None
    assert UsualBytes(200, 10, 900, 30).describe_strange("orders", 10) is None
    assert UsualBytes(200, 10, 900, 30).describe_strange("orders", 901) == (
        "orders is 4.5 times its median: 901 B instead of 200 B (30 days: 10 B to 900 B)"
    )


def test_a_source_that_is_empty_as_a_rule_has_no_times() -> None:
    usual = usual_bytes(days(0, 0, 0))["orders"]
    assert usual.describe_strange("orders", 0) is None
    assert usual.describe_strange("orders", 7) == "orders holds 7 B and is usually empty (3 days: 0 B to 0 B)"


def test_a_weekday_is_read_from_dates_and_times() -> None:
    assert [weekday_of(day) for day in ("2026-01-05", MONDAY, "2026-01-11", "", "yesterday")] == [0, 0, 6, None, None]
