"""Whether, and after how long, to restart after a failure.

Times are integer milliseconds of any one clock that the caller reads; randomness comes in as an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from airflow_abs.core.checks import check_int, check_number
from airflow_abs.core.errors import InvalidStateError, InvalidValueError

RandomInt = Callable[[int, int], int]  # uniform over both bounds, as random.randint


class RestartBackoff(Protocol):
    """Told of every failure; asked after it."""

    def notify_failure(self, now_ms: int) -> bool:
        """Note a failure; False if it is merged into the one before and counts for nothing."""

    def can_restart(self, now_ms: int) -> bool:
        """Whether the work may be restarted after the failures so far."""

    def backoff_ms(self, now_ms: int) -> int:
        """How long to wait from now."""


class FixedDelay:
    """A fixed number of restarts, always with the same wait."""

    def __init__(self, attempts: int, delay_ms: int) -> None:
        self._attempts = check_int("attempts", attempts, at_least=0)
        self._delay_ms = check_int("delay_ms", delay_ms, at_least=0)
        self._failures = 0

    def notify_failure(self, now_ms: int) -> bool:
        """Every failure counts."""
        self._failures += 1
        return True

    def can_restart(self, now_ms: int) -> bool:
        """As long as there were not more failures than attempts."""
        return self._failures <= self._attempts

    def backoff_ms(self, now_ms: int) -> int:
        """The delay."""
        return self._delay_ms


class FailureRate:
    """Restarts as long as no more than `max_failures` fell into one interval."""

    def __init__(self, max_failures: int, interval_ms: int, delay_ms: int) -> None:
        self._max_failures = check_int("max_failures", max_failures, at_least=1)
        self._interval_ms = check_int("interval_ms", interval_ms, at_least=1)
        self._delay_ms = check_int("delay_ms", delay_ms, at_least=0)
        self._failed_at: deque[int] = deque(maxlen=max_failures + 1)

    def notify_failure(self, now_ms: int) -> bool:
        """Every failure counts."""
        self._failed_at.append(now_ms)
        return True

    def can_restart(self, now_ms: int) -> bool:
        """Unless one more failure than allowed happened within the interval (its very end included)."""
        if len(self._failed_at) <= self._max_failures:
            return True
        return now_ms - self._failed_at[0] > self._interval_ms

    def backoff_ms(self, now_ms: int) -> int:
        """The delay."""
        return self._delay_ms


class NoRestart:
    """The first failure is the last."""

    def notify_failure(self, now_ms: int) -> bool:
        """Every failure counts."""
        return True

    def can_restart(self, now_ms: int) -> bool:
        """Never."""
        return False

    def backoff_ms(self, now_ms: int) -> int:
        """Nothing to wait for."""
        return 0


@dataclass(frozen=True, slots=True)
class ExponentialDelayOptions:
    """Waits that grow with every attempt.

    `attempts_before_reset` is how many failures in a row may be followed by a restart, None for any number. The row
    ends when no failure follows for `reset_threshold_ms` after a wait. `jitter` is the largest random deviation, as a
    share of the wait.
    """

    initial_ms: int = 1_000
    max_ms: int = 60_000
    multiplier: float = 1.5
    reset_threshold_ms: int = 3_600_000
    jitter: float = 0.1
    attempts_before_reset: int | None = None

    def __post_init__(self) -> None:
        check_int("initial_ms", self.initial_ms, at_least=1)
        check_int("max_ms", self.max_ms, at_least=self.initial_ms)
        check_number("multiplier", self.multiplier, at_least=1)
        check_int("reset_threshold_ms", self.reset_threshold_ms, at_least=1)
        if check_number("jitter", self.jitter, at_least=0) > 1:
            raise InvalidValueError(f"jitter: expected a number from 0 to 1, found {self.jitter}")
        if self.attempts_before_reset is not None:
            check_int("attempts_before_reset", self.attempts_before_reset, at_least=1)


class ExponentialDelay:
    """Waits grow by a factor; failures during a wait are merged into the one that began it."""

    def __init__(self, options: ExponentialDelayOptions, random_int: RandomInt) -> None:
        self._options = options
        self._random_int = random_int
        self._attempts = 0
        self._restart_at: int | None = None

    def notify_failure(self, now_ms: int) -> bool:
        """Begin a new wait, unless one is going on (its very end included)."""
        options = self._options
        if self._restart_at is not None:
            if now_ms <= self._restart_at:
                return False
            if now_ms - self._restart_at >= options.reset_threshold_ms:
                self._attempts = 0
        self._restart_at = now_ms + self._next_delay_ms()
        self._attempts += 1
        return True

    def can_restart(self, now_ms: int) -> bool:
        """As long as the row of failures is not longer than allowed."""
        return self._options.attempts_before_reset is None or self._attempts <= self._options.attempts_before_reset

    def backoff_ms(self, now_ms: int) -> int:
        """Rest of the wait.

        Raises:
            InvalidStateError: there was no failure yet.
        """
        if self._restart_at is None:
            raise InvalidStateError("backoff: expected a failure first, found none; call notify_failure before asking")
        return max(0, self._restart_at - now_ms)

    def _next_delay_ms(self) -> int:
        options = self._options
        try:
            base = int(options.initial_ms * float(options.multiplier) ** self._attempts)
            offset = int(base * options.jitter)
        except OverflowError:  # far beyond the maximum
            return options.max_ms
        return max(options.initial_ms, min(base + self._random_int(-offset, offset), options.max_ms))
