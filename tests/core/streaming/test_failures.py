"""Which failures of a stream are followed by a restart."""

from __future__ import annotations

from airflow_abs.core.restart_backoff import FixedDelay, NoRestart
from airflow_abs.core.streaming.failures import FailureJudge, QueryFailure, Verdict

LOST = QueryFailure("a worker was lost", offsets="{a: 7}", batch=7)


def test_a_failure_is_followed_by_a_restart_after_the_strategys_wait() -> None:
    judge = FailureJudge(FixedDelay(3, 2_500))
    assert judge.judge(LOST, 10.0) == Verdict(2.5, "failed in batch 7 at {a: 7}: a worker was lost")


def test_what_would_fail_again_is_given_up_at_once() -> None:
    judge = FailureJudge(FixedDelay(3, 0))
    failure = QueryFailure("no such column", restartable=False)
    assert judge.judge(failure, 0.0) == Verdict(None, "failed, and would again: no such column")


def test_a_failure_that_repeats_on_the_same_offsets_is_told_apart() -> None:
    judge = FailureJudge(FixedDelay(100, 0), same_offsets=3)
    verdicts = [judge.judge(LOST, float(k)) for k in range(3)]
    assert [verdict.backoff for verdict in verdicts] == [0.0, 0.0, None]
    assert verdicts[-1].reason == (
        "failed 3 times in a row in batch 7 at {a: 7}, so a restart does not get past it: a worker was lost"
    )


def test_one_that_comes_and_goes_is_not() -> None:
    judge = FailureJudge(FixedDelay(100, 0), same_offsets=2)
    elsewhere = [QueryFailure("a worker was lost", batch=batch) for batch in range(6)]
    assert all(judge.judge(failure, 0.0).backoff == 0.0 for failure in elsewhere)
    assert all(judge.judge(QueryFailure("the server went away"), 0.0).backoff == 0.0 for _ in range(6))


def test_the_strategy_has_the_last_word() -> None:
    verdict = FailureJudge(NoRestart()).judge(LOST, 0.0)
    assert verdict.backoff is None
    assert verdict.reason == (
        "failed in batch 7 at {a: 7}, and the restart strategy allows no more restarts: a worker was lost"
    )
