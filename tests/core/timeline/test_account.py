"""Where the seconds went, in a sentence."""

from __future__ import annotations

from airflow_abs.core.timeline.account import Share, account, describe_account
from airflow_abs.core.timeline.critical_path import BETWEEN, Kind, Phase, Segment


def path(*parts: tuple[Kind, str, float]) -> tuple[Segment, ...]:
    """Parts of so many seconds, one after the other."""
    moment, found = 0.0, []
    for kind, label, seconds in parts:
        found.append(Segment(Phase(kind, label, moment, moment + seconds), label))
        moment += seconds
    return tuple(found)


def test_the_largest_share_is_told_first_and_small_ones_together() -> None:
    shares = account(
        path(
            (Kind.AIRFLOW, BETWEEN, 1.5),
            (Kind.TASK, "plan", 2.0),
            (Kind.AIRFLOW, BETWEEN, 2.5),
            (Kind.SPARK, "Spark in enriched[2]", 6.0),
            (Kind.TASK, "release", 0.25),
        )
    )
    assert shares == (
        Share(Kind.SPARK, "Spark in enriched[2]", 6.0),
        Share(Kind.AIRFLOW, BETWEEN, 4.0),
        Share(Kind.TASK, "plan", 2.0),
        Share(Kind.TASK, "release", 0.25),
    )
    # 12.25 is told as 12.2; 6.0 + 4.0 + 2.0 leave 0.2, less than 3 % of it.
    assert (
        describe_account(shares)
        == "12.2 s: 6.0 s Spark in enriched[2], 4.0 s Airflow between tasks, 2.0 s plan, 0.2 s other"
    )


def test_minutes_and_hours_are_told_as_such() -> None:
    assert describe_account(account(path((Kind.SPARK, "Spark", 3725.0)))) == "1 h 2 min: 1 h 2 min Spark"
    assert describe_account(account(path((Kind.SPARK, "Spark", 125.0)))) == "2 min 5 s: 2 min 5 s Spark"
    assert describe_account(account(path((Kind.SPARK, "Spark", 59.97)))) == "1 min 0 s: 1 min 0 s Spark"


def test_a_run_without_time_has_no_account() -> None:
    assert describe_account(account(())) == ""
