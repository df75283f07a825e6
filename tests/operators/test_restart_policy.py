"""What is restarted, when, and how often: replayed from the records of earlier tries."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction, RetryDecision

from airflow_abs.airflow_abilities import RETRY_POLICIES, AirflowFailException, AirflowSkipException
from airflow_abs.core.errors import InvalidValueError, JobGraphError
from airflow_abs.exchange.errors import (
    CommitConflictError,
    DamagedFileError,
    ExchangeUnreachableError,
    TargetBusyError,
)
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.tries import TryRecord, write_try
from airflow_abs.operators import job_task, judged
from airflow_abs.operators.job_task import JobTask
from airflow_abs.operators.restart_policy import RestartPolicy, TransientErrorPolicy, decide_restart
from airflow_abs.operators.run_subtask import RunSubtaskOperator
from airflow_abs.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NeverRestart,
    RestartStrategy,
    check_strategy,
)
from airflow_abs.spark.errors import (
    ConnectServerUnreachableError,
    OperationCancelledError,
    RecomputationError,
    SparkOperationError,
    SubtaskOutOfMemoryError,
    TransientSparkError,
    UnsplittableMemoryError,
    UserCodeError,
)
from airflow_abs.spark.server.embedded_state import EmbeddedSparkError
from airflow_abs.spark.server.java import JavaMissingError

NOW = 10_000_000


@pytest.mark.parametrize(
    ("strategy", "failed_at", "delay"),
    [
        (FixedDelayRestart(2, 7.5), [NOW], 7.5),
        (FixedDelayRestart(2, 7.5), [0, NOW], 7.5),
        (FixedDelayRestart(2, 7.5), [0, 1, NOW], None),
        # 1 s, then 2 s, then 4 s after it: failures that fall into a wait are merged into the one that began it
        (ExponentialDelayRestart(jitter=0.0), [NOW], 1.0),
        (ExponentialDelayRestart(jitter=0.0), [NOW - 5_000, NOW], 2.0),
        (ExponentialDelayRestart(jitter=0.0), [NOW - 20_000, NOW - 10_000, NOW], 4.0),
        (ExponentialDelayRestart(jitter=0.0, longest=3.0), [NOW - 20_000, NOW - 10_000, NOW], 3.0),
        (ExponentialDelayRestart(jitter=0.0, attempts=2), [NOW - 20_000, NOW - 10_000, NOW], None),
        (ExponentialDelayRestart(jitter=0.0, attempts=2, reset_after=5.0), [NOW - 20_000, NOW - 10_000, NOW], 1.0),
        (FailureRateRestart(2, 60.0, 3.0), [NOW - 61_000, NOW - 1_000, NOW], 3.0),
        (FailureRateRestart(2, 60.0, 3.0), [NOW - 59_000, NOW - 1_000, NOW], None),
        (NeverRestart(), [NOW], None),
    ],
)
def test_the_strategy_decides_over_all_failures(
    strategy: RestartStrategy, failed_at: list[int], delay: float | None
) -> None:
    decision = decide_restart(strategy, failed_at, NOW, "seed")
    if delay is None:
        assert decision.action is RetryAction.FAIL
    else:
        assert (decision.action, decision.retry_delay) == (RetryAction.RETRY, timedelta(seconds=delay))


def test_two_replays_of_the_same_failures_come_to_the_same_wait() -> None:
    decided = [decide_restart(ExponentialDelayRestart(), [NOW], NOW, seed).retry_delay for seed in "aab"]
    assert decided[0] == decided[1] != decided[2]


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (UserCodeError("x"), False),
        (OperationCancelledError("x"), False),
        (RecomputationError("x"), False),
        (UnsplittableMemoryError("x"), False),
        (SubtaskOutOfMemoryError("x"), True),
        (TransientSparkError("x"), True),
        (DamagedFileError("x"), False),
        (ExchangeUnreachableError("x"), True),
        (RuntimeError("not ours"), True),
    ],
)
def test_what_would_happen_again_is_not_restarted(error: Exception, again: bool) -> None:
    decision = RestartPolicy(FixedDelayRestart()).evaluate(error, 1, 3)
    assert (decision.action is RetryAction.RETRY) == again


def operator_context(root: Path, try_number: int, retries: int) -> Any:
    operator = RunSubtaskOperator(
        task_id="run",
        region="orders",
        subtask={"index": 3},
        deferrable=True,
        defer_after=10.0,
        stall_after=600.0,
        slot_options={},
        exchange=f"file://{root}",
        job="job",
        conn_id="spark",
        retries=retries,
    )
    run = SimpleNamespace(dag_id="dag", run_id="run")
    instance = SimpleNamespace(dag_id="dag", run_id="run", try_number=try_number)
    return {"task": operator, "ti": instance, "dag_run": run}


def test_failures_are_read_from_the_exchange_and_forgotten_after_a_clear(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "run", "job")
    for number in (1, 2, 3):
        write_try(folder, "orders", 3, TryRecord(number, "d", number, "", "failed", "TransientSparkError", NOW))
    policy = RestartPolicy(FixedDelayRestart(2, 1.0))

    def decide(max_tries: int) -> RetryDecision:
        return policy.evaluate(TransientSparkError("x"), 3, max_tries, operator_context(tmp_path, 3, retries=2))

    assert decide(max_tries=2).action is RetryAction.FAIL  # three failures, two restarts
    assert "failure 3 in a row" in str(decide(max_tries=2).reason)
    assert decide(max_tries=4).action is RetryAction.RETRY  # cleared after try 2: this is the first failure since


class PySparkException(Exception):  # noqa: N818 - as pyspark names them
    pass


class SparkConnectGrpcException(PySparkException):
    pass


class AnalysisException(SparkConnectGrpcException):
    pass


class ClientError(Exception):
    """As storage clients raise them."""


@pytest.mark.parametrize(
    ("error", "action"),
    [
        (SparkConnectGrpcException(), RetryAction.RETRY),
        (ExchangeUnreachableError("x"), RetryAction.RETRY),
        (EmbeddedSparkError("x"), RetryAction.RETRY),
        (AnalysisException(), RetryAction.FAIL),
        (TargetBusyError("x"), RetryAction.RETRY),
        (CommitConflictError("x"), RetryAction.FAIL),
        (DamagedFileError("x"), RetryAction.FAIL),
        (JavaMissingError("x"), RetryAction.FAIL),
        (JobGraphError("x"), RetryAction.FAIL),
        (KeyError("a user's"), RetryAction.FAIL),
        (ClientError("SlowDown"), RetryAction.DEFAULT),
        (ConnectionResetError(), RetryAction.DEFAULT),
        (RuntimeError("not ours"), RetryAction.DEFAULT),
    ],
)
def test_the_head_of_a_job_is_tried_again_unless_it_is_a_mistake(error: Exception, action: RetryAction) -> None:
    assert TransientErrorPolicy().evaluate(error, 1, 3).action is action


@pytest.mark.parametrize("clears", [0, 1])
def test_the_head_of_a_job_outlasts_minutes_without_a_server(clears: int) -> None:
    """A clear raises max_tries to the tries so far plus the retries."""
    retries = 8
    context: Any = {"task": SimpleNamespace(retries=retries)}
    error, before = ConnectServerUnreachableError("gone"), clears * 4
    decided = [
        TransientErrorPolicy().evaluate(error, before + number, before + retries, context)
        for number in range(1, retries + 1)
    ]
    assert [each.retry_delay.total_seconds() for each in decided if each.retry_delay] == [5, 15, 45, *[60] * 5]


@pytest.fixture
def without_policies(monkeypatch: pytest.MonkeyPatch) -> type[JobTask]:
    """A task of a job where Airflow has no retry policies. It raises its `error`."""
    for module in (job_task, judged):
        monkeypatch.setattr(module, "has", lambda ability: ability is not RETRY_POLICIES)

    class Failing(JobTask):
        error: BaseException

        def execute(self, context: Any) -> None:
            raise self.error

        def execute_complete(self, context: Any, event: dict[str, Any]) -> None:
            raise self.error

    return Failing


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (DamagedFileError("x"), AirflowFailException),
        (KeyError("a user's"), AirflowFailException),
        (ExchangeUnreachableError("x"), ExchangeUnreachableError),
        (RuntimeError("not ours"), RuntimeError),
        (AirflowSkipException(), AirflowSkipException),
        (AirflowFailException("x"), AirflowFailException),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_a_task_asks_its_policy_itself_where_airflow_does_not(
    error: BaseException, raised: type[BaseException], without_policies: Any
) -> None:
    task = without_policies(
        task_id="t", exchange="/x", job="j", conn_id="spark", retry_policy=TransientErrorPolicy(), retries=3
    )
    task.error = error
    context: Any = {"task": task, "ti": SimpleNamespace(try_number=1, max_tries=3)}
    for call in (task.execute, partial(task.execute_complete, event={})):
        with pytest.raises(raised) as caught:
            call(context)
        assert caught.value is error or caught.value.__cause__ is error
    assert TransientErrorPolicy() == task.retry_policy


def test_what_a_template_lacks_fails_at_once_there_too(without_policies: Any) -> None:
    task = without_policies(
        task_id="t", exchange="/x/{{ country.name }}", job="j", conn_id="spark", retry_policy=TransientErrorPolicy()
    )
    context: Any = {"ti": SimpleNamespace(try_number=1, max_tries=3)}
    with pytest.raises(AirflowFailException, match=r"'country' is undefined.*.* would happen again"):
        task.render_template_fields(context)


def test_a_strategy_is_checked_when_the_dag_is_parsed() -> None:
    assert check_strategy(None) == ExponentialDelayRestart()
    with pytest.raises(
        InvalidValueError, match="restart_strategy is 'fixed-delay'; expected one of FixedDelayRestart, "
    ):
        check_strategy("fixed-delay")
    with pytest.raises(InvalidValueError, match="jitter: expected a number from 0 to 1, found 2"):
        check_strategy(ExponentialDelayRestart(jitter=2))


def test_every_error_travels_to_the_worker_whole() -> None:
    from airflow_abs.execution.task_end import error_from_json, error_to_json

    spark = SubtaskOutOfMemoryError("Java heap space\n  in orders[3]", error_class="X")
    assert error_from_json(error_to_json(spark)) == spark
    damaged = DamagedFileError("plan.json: altered", path="/x/plan.json")
    back = error_from_json(error_to_json(damaged))
    assert (type(back), str(back), getattr(back, "path", "")) == (DamagedFileError, str(damaged), "/x/plan.json")
    assert type(error_from_json(error_to_json(ExchangeUnreachableError("gone")))) is ExchangeUnreachableError
    assert isinstance(spark, SparkOperationError)
