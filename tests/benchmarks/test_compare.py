from __future__ import annotations

from benchmarks.compare import Comparison, Round


def test_failures_come_after_the_undisturbed_rounds() -> None:
    comparison = Comparison((), ("ours",), 0.5, 2, failures=("start", "end"))
    assert comparison.rounds == [Round(1, 0.5), Round(2, 0.5), Round(3, 0.5, 0.1), Round(4, 0.5, 0.9)]


def test_the_days_of_a_series_differ_20_fold_and_are_the_same_every_time() -> None:
    comparison = Comparison((), ("ours",), 2.0, 1, days=30)
    scales = [each.scale for each in comparison.rounds]
    assert (len(scales), len(set(scales)), min(scales), max(scales)) == (30, 6, 0.1, 2.0)
    assert scales != sorted(scales)
    assert comparison.rounds == comparison.rounds
