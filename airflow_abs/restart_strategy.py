"""When a failed subtask or stream is restarted: what a DAG author may choose, in Flink's words. Times are seconds."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.restart_backoff import (
    ExponentialDelay,
    ExponentialDelayOptions,
    FailureRate,
    FixedDelay,
    NoRestart,
    RestartBackoff,
)

_UNLIMITED = 1000


@dataclass(frozen=True, slots=True)
class FixedDelayRestart:
    """`attempts` restarts, each after `delay` seconds."""

    attempts: int = 3
    delay: float = 10.0

    @property
    def retries(self) -> int:
        """Most restarts that Airflow has to allow."""
        return self.attempts

    def new_backoff(self, seed: str) -> RestartBackoff:
        return FixedDelay(self.attempts, _ms(self.delay))


@dataclass(frozen=True, slots=True)
class ExponentialDelayRestart:
    """Waits that grow with every failure in a row: `initial`, then `multiplier` times the previous one, up to
    `longest`.

    A row ends after `reset_after` without a failure. `jitter` is the largest random deviation as a share of the wait.
    `attempts` None allows any number.
    """

    initial: float = 1.0
    longest: float = 60.0
    multiplier: float = 2.0
    jitter: float = 0.1
    reset_after: float = 3600.0
    attempts: int | None = 4

    @property
    def retries(self) -> int:
        return _UNLIMITED if self.attempts is None else self.attempts

    def new_backoff(self, seed: str) -> RestartBackoff:
        options = ExponentialDelayOptions(
            initial_ms=_ms(self.initial),
            max_ms=_ms(self.longest),
            multiplier=self.multiplier,
            reset_threshold_ms=_ms(self.reset_after),
            jitter=self.jitter,
            attempts_before_reset=self.attempts,
        )
        # seeded: the same failures lead to the same waits
        return ExponentialDelay(options, random.Random(seed).randint)  # noqa: S311


@dataclass(frozen=True, slots=True)
class FailureRateRestart:
    """Restarts, each after `delay`, as long as there are at most `failures` within `interval`."""

    failures: int = 3
    interval: float = 600.0
    delay: float = 1.0

    @property
    def retries(self) -> int:
        return _UNLIMITED

    def new_backoff(self, seed: str) -> RestartBackoff:
        return FailureRate(self.failures, _ms(self.interval), _ms(self.delay))


@dataclass(frozen=True, slots=True)
class NeverRestart:
    """The first failure is the last."""

    retries: ClassVar[int] = 0

    def new_backoff(self, seed: str) -> RestartBackoff:
        return NoRestart()


RestartStrategy = FixedDelayRestart | ExponentialDelayRestart | FailureRateRestart | NeverRestart

DEFAULT = ExponentialDelayRestart()


def check_strategy(strategy: object) -> RestartStrategy:
    """The strategy itself, None meaning the default.

    Raises:
        InvalidValueError: it is no strategy, or one of its numbers is not allowed.
    """
    if strategy is None:
        return DEFAULT
    if not isinstance(strategy, RestartStrategy):
        names = ", ".join(kind.__name__ for kind in RestartStrategy.__args__)
        raise InvalidValueError(f"restart_strategy is {strategy!r}; expected one of {names}")
    strategy.new_backoff("")
    return strategy


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def strategy_to_json(strategy: RestartStrategy) -> dict[str, Any]:
    """A strategy as plain values, for a trigger."""
    return {"kind": type(strategy).__name__, **asdict(strategy)}


def strategy_from_json(value: Mapping[str, Any]) -> RestartStrategy:
    """Inverse of `strategy_to_json`."""
    kind = next(each for each in RestartStrategy.__args__ if each.__name__ == value["kind"])
    strategy: RestartStrategy = kind(**{name: field for name, field in value.items() if name != "kind"})
    return strategy
