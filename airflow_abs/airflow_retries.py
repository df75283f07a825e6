"""Retry policies for an Airflow that has none (below 3.3): as much of its `retry_policy` module as is used here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Self


class RetryAction(Enum):
    RETRY = "retry"
    FAIL = "fail"
    DEFAULT = "default"


@dataclass(frozen=True)
class RetryDecision:
    """What a policy says of a failure; see Airflow 3.3's class of this name."""

    action: RetryAction = RetryAction.DEFAULT
    retry_delay: timedelta | None = None
    reason: str | None = None

    @classmethod
    def fail(cls, reason: str | None = None) -> Self:
        return cls(RetryAction.FAIL, reason=reason)

    @classmethod
    def retry(cls, delay: timedelta | None = None, reason: str | None = None) -> Self:
        return cls(RetryAction.RETRY, delay, reason)

    @classmethod
    def default(cls) -> Self:
        return cls()


class RetryPolicy:
    """Base of policies."""
