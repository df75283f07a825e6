"""Flink's restart strategies as Airflow's retry policy of the mapped task.

Every failure is a fresh process, so the strategy has no memory of its own: the failures of earlier tries are read from
their records in the exchange and replayed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from airflow_abs.airflow_abilities import (
    RetryDecision,
    RetryPolicy,
)
from airflow_abs.core.errors import AdaptiveSchedulerError
from airflow_abs.restart_strategy import RestartStrategy

if TYPE_CHECKING:
    from airflow.sdk import Context


@dataclass(frozen=True)  # Airflow below 3.3 stores its text with a mapped task
class RestartPolicy(RetryPolicy):
    """Fails at once what a restart cannot help; lets the strategy decide on the rest.

    Args:
        strategy: when, and after how long, to restart.
    """

    strategy: RestartStrategy

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        if not getattr(exception, "restartable", True):
            return RetryDecision.fail(f"{type(exception).__name__} would happen again")
        failed_at, seed = _failures(context, max_tries) if context is not None else ([], "")
        return decide_restart(self.strategy, failed_at, int(time.time() * 1000), seed)


def decide_restart(strategy: RestartStrategy, failed_at: Sequence[int], now: int, seed: str) -> RetryDecision:
    """Replay the failures so far (epoch milliseconds, in order; the last one is the present) and decide."""
    backoff = strategy.new_backoff(seed)
    times = list(failed_at) or [now]
    for moment in times:
        backoff.notify_failure(moment)
    if not backoff.can_restart(now):
        return RetryDecision.fail(f"failure {len(times)} in a row; {strategy} allows no further restart")
    delay = backoff.backoff_ms(now) / 1000
    return RetryDecision.retry(timedelta(seconds=delay), f"failure {len(times)}: restart in {delay:.1f} s ({strategy})")


def _failures(context: Context, max_tries: int) -> tuple[list[int], str]:
    """When this subtask failed since it was last cleared, and what seeds its jitter."""
    from airflow_abs.exchange.records.tries import read_tries
    from airflow_abs.operators.run_subtask import RunSubtaskOperator

    task, instance = context["task"], context["ti"]
    if not isinstance(task, RunSubtaskOperator) or not isinstance(task.subtask, dict):
        return [], ""
    # A clear raises max_tries to the tries so far plus the retries.
    first = max_tries - (task.retries or 0) + 1
    index = int(task.subtask["index"])
    tries = read_tries(task.folder(context), task.region, index, below=instance.try_number + 1)
    failed = [
        round(record.changed * 1000) for record in tries if record.number >= first and record.state != "committed"
    ]
    return sorted(failed), f"{instance.dag_id}/{instance.run_id}/{task.region}/{index}"


# Mistakes in code or data, in Python's words and ours: the same again. Storage clients raise others, or OSError.
_MISTAKES = (
    AdaptiveSchedulerError, ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, NameError,
    SyntaxError, TypeError, ValueError,
)  # fmt: skip
# What pyspark's own client raises when its server goes away; all its other errors are users' mistakes.
_PYSPARK = "PySparkException"
_SERVER_LOST = frozenset(
    {"SparkConnectGrpcException", "RetriesExceeded", "_InactiveRpcError", "_MultiThreadedRendezvous"}
)
_FIRST_SECONDS, _FACTOR, _MOST_SECONDS = 5, 3, 60


@dataclass(frozen=True)
class TransientErrorPolicy(RetryPolicy):
    """For plan, decide, commit and release: again where the network or the storage failed, never for a mistake.

    The first retry follows soon, later ones after up to a minute: a Spark server that restarts is back by then.
    What neither says of itself whether it may pass nor is a mistake (an error of a storage client, of the system) is
    left to Airflow's `retries` and `retry_delay`. So is a worker that is killed: no policy sees that.
    """

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        name = type(exception).__name__
        match getattr(exception, "restartable", True if name in _SERVER_LOST else None):
            case True:
                seconds = min(_FIRST_SECONDS * _FACTOR ** _failed_before(try_number, max_tries, context), _MOST_SECONDS)
                return RetryDecision.retry(timedelta(seconds=seconds), f"{name} may pass")
            case None if not _is_mistake(exception):
                return RetryDecision.default()
        return RetryDecision.fail(f"{name} would happen again")


def _failed_before(try_number: int, max_tries: int, context: Context | None) -> int:
    """How many tries failed before this one since the task was last cleared: a clear raises max_tries."""
    if context is None:
        return try_number - 1
    return max(0, try_number - (max_tries - (context["task"].retries or 0)) - 1)


def _is_mistake(exception: BaseException) -> bool:
    """Without loading pyspark: its errors are told by name."""
    return isinstance(exception, _MISTAKES) or _PYSPARK in {kind.__name__ for kind in type(exception).__mro__}
