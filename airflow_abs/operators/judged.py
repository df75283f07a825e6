"""Retry policies where Airflow has none (below 3.3): a task asks its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

from airflow_abs.airflow_abilities import (
    RETRY_POLICIES,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
    has,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_abs.airflow_abilities import RetryPolicy

# No failures, or final ones already.
_ENDS = (AirflowFailException, AirflowRescheduleException, AirflowSkipException)


@contextmanager
def judged(policy: RetryPolicy | None, context: Context) -> Iterator[None]:
    """Where Airflow does not ask the policy, the task itself does: what the policy fails is not tried again.

    The policy's delay is lost: Airflow waits for its own.

    Raises:
        AirflowFailException: in place of an error that the policy fails.
    """
    if has(RETRY_POLICIES):
        yield
        return
    try:
        yield
    except _ENDS:
        raise
    except Exception as error:
        instance: Any = context["ti"]
        if policy is None:
            raise
        decision = policy.evaluate(error, instance.try_number, instance.max_tries, context)
        if decision.action.value != "fail":
            raise
        raise AirflowFailException(f"{error} ({decision.reason})") from error


def judging(method: Callable[..., Any]) -> Callable[..., Any]:
    """A task's `execute` or `execute_complete` that asks the task's policy by itself."""

    @wraps(method)
    def judging_method(task: Any, context: Context, *args: Any, **kwargs: Any) -> Any:
        with judged(task.retry_policy, context):
            return method(task, context, *args, **kwargs)

    return judging_method
