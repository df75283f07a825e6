from __future__ import annotations

from airflow_abs.core.durability.failures import FailurePriors
from benchmarks.compare import Comparison, Round
from benchmarks.failures import KILLABLE
from benchmarks.peers import AIRFLOW_PEERS


def test_failures_come_after_the_undisturbed_rounds() -> None:
    comparison = Comparison((), ("ours",), 0.5, 2, failures=("start", "three"))
    failing = [Round(3, 0.5, "start"), Round(4, 0.5, "start"), Round(5, 0.5, "three"), Round(6, 0.5, "three")]
    assert comparison.rounds == [Round(1, 0.5), Round(2, 0.5), *failing]


def test_a_peer_that_must_fail_runs_in_every_round_as_what_can_be_killed() -> None:
    undisturbed, failing = (Comparison((), ("auto",), 1.0, 1, failures=kinds) for kinds in ((), ("end",)))
    assert (undisturbed.runner("auto"), failing.runner("auto")) == ("auto", "auto_on_workers")
    assert failing.runner("whole") == "whole"
    assert set(KILLABLE.values()) <= set(AIRFLOW_PEERS)


def test_the_jobs_are_told_the_time_between_failures() -> None:
    told = Comparison((), (), 1.0, 1, mean_seconds=600.0)
    assert told.priors == FailurePriors(failures_per_run=0.0, failures_per_day=144.0)
    assert Comparison((), (), 1.0, 1).priors == FailurePriors()


def test_the_days_of_a_series_differ_20_fold_and_are_the_same_every_time() -> None:
    comparison = Comparison((), ("ours",), 2.0, 1, days=30)
    scales = [each.scale for each in comparison.rounds]
    assert (len(scales), len(set(scales)), min(scales), max(scales)) == (30, 6, 0.1, 2.0)
    assert scales != sorted(scales)
    assert comparison.rounds == comparison.rounds
