"""Topics restart_backoff and resource_wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_abs.core.restart_backoff import (
    ExponentialDelay,
    ExponentialDelayOptions,
    FailureRate,
    FixedDelay,
    NoRestart,
    RandomInt,
    RestartBackoff,
)
from airflow_abs.core.slots.resource_wait import Resources, ResourceWait, WaitOptions
from flink_shapes.notation import Given, pick, resources_of


def restart_backoff(version: str | None, given: Given) -> dict[str, Any]:
    if "failures" in given:
        return {"possible_backoff_ms": _possible_backoffs(given)}
    strategy = _strategy(given, lambda low, high: 0)
    if "failures_without_advancing_time" in given:
        for _ in range(given["failures_without_advancing_time"]):
            strategy.notify_failure(0)
        # The case asks for an upper bound only.
        return {"backoff_ms_at_most": max(strategy.backoff_ms(0), given["max_backoff_ms"])}
    if "steps" not in given:
        return {"backoff_ms": strategy.backoff_ms(0), "can_restart": strategy.can_restart(0)}
    return {"results": _run(strategy, given["steps"])}


def _run(strategy: RestartBackoff, steps: Sequence[Given]) -> list[Any]:
    """Answers of every reading; those of every failure too where the strategy may merge them."""
    now, results = 0, []
    for step in steps:
        now += step.get("advance_ms", 0)
        for _ in range(step.get("notify", 0)):
            counted = strategy.notify_failure(now)
            if isinstance(strategy, ExponentialDelay):
                results.append(counted)
        match step.get("read"):
            case "can_restart":
                results.append(strategy.can_restart(now))
            case "backoff_ms":
                results.append(strategy.backoff_ms(now))
    return results


def _possible_backoffs(given: Given) -> list[int]:
    """Backoffs after the last failure, for every value that its jitter may have."""
    first, last = _after_failures(given, None)
    return sorted({_after_failures(given, offset)[0] for offset in range(last[0], last[1] + 1)} | {first})


def _after_failures(given: Given, last_offset: int | None) -> tuple[int, tuple[int, int]]:
    asked: list[tuple[int, int]] = []

    def random_int(low: int, high: int) -> int:
        asked.append((low, high))
        return last_offset if last_offset is not None and len(asked) == given["failures"] else 0

    strategy = _strategy(given, random_int)
    now = 0
    for _ in range(given["failures"]):
        now += given["advance_ms_before_each_failure"]
        strategy.notify_failure(now)
    return strategy.backoff_ms(now), asked[-1]


def _strategy(given: Given, random_int: RandomInt) -> Any:
    match given["strategy"]:
        case "exponential-delay":
            attempts = pick(given, "attempts_before_reset", default="infinite")
            options = ExponentialDelayOptions(
                initial_ms=given["initial_backoff_ms"],
                max_ms=given["max_backoff_ms"],
                multiplier=given["multiplier"],
                reset_threshold_ms=given["reset_threshold_ms"],
                jitter=given["jitter"],
                attempts_before_reset=None if attempts == "infinite" else attempts,
            )
            return ExponentialDelay(options, random_int)
        case "failure-rate":
            return FailureRate(given["max_failures_per_interval"], given["interval_ms"], given["delay_ms"])
        case "fixed-delay":
            attempts = next((n for name, n in given.items() if "attempts" in name or "restarts" in name), 1)
            return FixedDelay(attempts, pick(given, "delay_ms", "backoff_ms", default=0))
    return NoRestart()


def resource_wait(version: str | None, given: Given) -> dict[str, Any]:
    wait = ResourceWait(WaitOptions(given["resource_wait_timeout_ms"], given["stabilization_timeout_ms"]), now=0)
    now, resources, is_over = 0, Resources.INSUFFICIENT, False
    over_after = []
    for step in given["steps"]:
        resources = resources_of(step) if "resources" in step else resources
        now += step.get("advance_ms", 0)
        is_due = wait.next_look_at is not None and wait.next_look_at <= now
        if "event" in step or ("advance_ms" in step and is_due):
            is_over = is_over or wait.look(now, resources) is not None
        over_after.append(is_over)
    return {"creating_execution_graph_after_each_step": over_after}
