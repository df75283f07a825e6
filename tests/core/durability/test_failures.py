"""How much work lies between two failures."""

from __future__ import annotations

import math

import pytest

from airflow_abs.core.durability.failures import FailurePriors, MeanTimes, estimate_mean_times
from airflow_abs.core.durability.prediction import JobHistory, RegionHistory, RunHistory
from airflow_abs.core.errors import InvalidValueError


def runs(count: int, **failures: int) -> JobHistory:
    """Runs of half an hour each; what failed, failed in the last one."""
    regions = [RegionHistory(("orders",), 1, 1, 1, 1800.0) for _ in range(count - 1)]
    regions.append(RegionHistory(("orders",), 1, 1, 1, 1800.0, **failures))
    return JobHistory(tuple(RunHistory(day, (region,)) for day, region in enumerate(regions)))


def test_without_history_the_priors_count() -> None:
    # one run in twenty of 150 s: 3,000 s; one machine a day: 86,400 s; together 1 / (1 / 3,000 + 1 / 86,400)
    found = estimate_mean_times(150.0)
    assert found == MeanTimes(3000.0, 86_400.0)
    assert found.seconds == pytest.approx(2899.3, abs=0.1)


def test_runs_without_failure_lengthen_both() -> None:
    # 20 runs more: 1 in 40; ten hours more than the day: 1 in 34 hours
    assert estimate_mean_times(150.0, runs(20)) == MeanTimes(6000.0, pytest.approx(34 * 3600.0))


def test_what_failed_counts_in_its_own_kind() -> None:
    assert estimate_mean_times(150.0, runs(20, data_failures=3)).of_data == 1500.0  # 4 in 40 runs
    assert estimate_mean_times(150.0, runs(48, machine_failures=1)).of_machines == 86_400.0  # 2 in 48 hours


def test_where_nothing_ever_fails_there_is_no_end_to_the_work() -> None:
    assert estimate_mean_times(150.0, priors=FailurePriors(0.0, 0.0)).seconds == math.inf


@pytest.mark.parametrize("name", ["failures_per_run", "failures_per_day"])
def test_a_negative_rate_is_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{name}: expected a number of at least 0, found -1"):
        FailurePriors(**{name: -1})
