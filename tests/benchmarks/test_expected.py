from __future__ import annotations

import pytest

from airflow_abs.core.durability.failures import FailurePriors
from benchmarks.expected import expected_table, priors_of, probability_of_failure
from benchmarks.samples import Sample


def sample(peer: str, wall: float, failure: str = "", problem: str | None = None) -> Sample:
    return Sample("chain", peer, 1, wall, {"spark": 1.0}, problem, failure=failure)


def test_the_probability_of_a_failure_adds_both_kinds_up() -> None:
    # one run in twenty, and 864 s of the 86,400 between two failures of machines
    assert probability_of_failure(864.0, FailurePriors()) == pytest.approx(0.05 + 0.01)
    assert probability_of_failure(120.0, priors_of(600.0)) == pytest.approx(0.2)
    assert probability_of_failure(2000.0, priors_of(600.0)) == 1.0
    assert probability_of_failure(100.0, FailurePriors(0, 0)) == 0.0


def test_expected_seconds_are_the_mean_over_days_with_and_without_a_failure() -> None:
    samples = [sample("auto", 90.0), sample("auto", 110.0), sample("auto", 190.0, "end")]
    samples += [sample("whole", 120.0), sample("whole", 240.0, "end")]
    # p of 100 s at M = 1000 s is 0.1: 0.9 * 100 + 0.1 * 190 = 109; of 120 s 0.12: 0.88 * 120 + 0.12 * 240 = 134.4
    assert expected_table(samples, priors_of(1000.0)) == [
        "| failure | peer | undisturbed s | failed s | p | expected s | auto/it |",
        "|---|---|---|---|---|---|---|",
        "| end | auto | 100.0 | 190.0 | 0.100 | 109.0 |  |",
        "| end | whole | 120.0 | 240.0 | 0.120 | 134.4 | 0.81 |",
    ]


def test_wrong_runs_and_three_failures_expect_nothing() -> None:
    samples = [
        sample("auto", 90.0),
        sample("auto", 190.0, "end", "0 of 1 failures met it"),
        sample("auto", 1.0, "three"),
    ]
    assert expected_table(samples, FailurePriors()) == []
