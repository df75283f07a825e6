"""Which failures of a stream are followed by a restart."""

from __future__ import annotations

from dataclasses import replace

from airflow_abs.core.restart_backoff import FixedDelay, NoRestart
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure, Verdict

LOST = QueryFailure("a worker was lost", offsets="{a: 7}", batch=7)


def test_a_failure_is_followed_by_a_restart_after_the_strategys_wait() -> None:
    judge = FailureJudge(FixedDelay(3, 2_500))
    assert judge.judge(LOST, 10.0) == Verdict(2.5, "failed in batch 7 at {a: 7}: a worker was lost")


def test_what_would_fail_again_is_given_up_at_once() -> None:
    judge = FailureJudge(FixedDelay(3, 0))
    failure = QueryFailure("no such column", restartable=False)
    assert judge.judge(failure, 0.0) == Verdict(None, "failed, and would fail again: no such column")


def test_a_failure_that_repeats_on_the_same_offsets_is_told_apart() -> None:
    judge = FailureJudge(FixedDelay(100, 0), same_offsets=3)
    verdicts = [judge.judge(LOST, float(k)) for k in range(3)]
    assert [verdict.backoff for verdict in verdicts] == [0.0, 0.0, None]
    assert verdicts[-1].reason == (
        "failed 3 times in a row in batch 7 at {a: 7}, so restarting does not help: a worker was lost"
    )


def test_one_that_comes_and_goes_is_not() -> None:
    judge = FailureJudge(FixedDelay(100, 0), same_offsets=2)
    elsewhere = [QueryFailure("a worker was lost", batch=batch) for batch in range(6)]
    assert all(judge.judge(failure, 0.0).backoff == 0.0 for failure in elsewhere)
    assert all(judge.judge(QueryFailure("the server went away"), 0.0).backoff == 0.0 for _ in range(6))


def test_a_source_that_is_away_is_left_to_the_strategy_and_rows_that_fail_around_it_are_not() -> None:
    judge = FailureJudge(FixedDelay(20, 0), same_offsets=3)
    away = replace(LOST, message="the broker did not answer", is_away=True)
    assert all(judge.judge(away, 0.0).backoff == 0.0 for _ in range(10))
    verdicts = [judge.judge(failure, 0.0).backoff for failure in (LOST, LOST, away, LOST)]
    assert verdicts == [0.0, 0.0, 0.0, None]
    strategy = FailureJudge(FixedDelay(3, 0))
    assert [strategy.judge(away, 0.0).backoff for _ in range(4)] == [0.0, 0.0, 0.0, None]


def test_another_failure_on_the_same_offsets_is_another_one() -> None:
    judge = FailureJudge(FixedDelay(20, 0), same_offsets=2)
    kinds = ["java.io.IOException", "OOM", "java.io.IOException", "OOM"]
    assert all(judge.judge(replace(LOST, kind=kind), 0.0).backoff == 0.0 for kind in kinds)


def test_the_strategy_has_the_last_word() -> None:
    verdict = FailureJudge(NoRestart()).judge(LOST, 0.0)
    assert verdict.backoff is None
    assert verdict.reason == (
        "failed in batch 7 at {a: 7}, and the restart strategy allows no more restarts: a worker was lost"
    )


def test_a_query_that_fails_before_it_knows_any_offsets_says_so() -> None:
    verdict = FailureJudge(FixedDelay(3, 0)).judge(replace(LOST, offsets="{}", batch=None), 0.0)
    assert verdict.reason == "failed before its first batch: a worker was lost"
