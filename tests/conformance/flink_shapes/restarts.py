"""Topics restart_backoff and slow_task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_abs.core.not_yet_used.slow_tasks import (
    Execution,
    ExecutionState,
    ExecutionTime,
    SlowTaskOptions,
    compare_execution_times,
    find_slow_subtasks,
)
from airflow_abs.core.restart_backoff import (
    ExponentialDelay,
    ExponentialDelayOptions,
    FailureRate,
    FixedDelay,
    NoRestart,
    RandomInt,
    RestartBackoff,
    choose_strategy,
)
from flink_shapes.notation import Given, number_or_none, pick


def restart_backoff(version: str | None, given: Given) -> dict[str, Any]:
    if "strategy" not in given:
        return _choice(given)
    if "failures" in given:
        return {"possible_backoff_ms": _possible_backoffs(given)}
    strategy = _strategy(given, lambda low, high: 0)
    if "failures_without_advancing_time" in given:
        for _ in range(given["failures_without_advancing_time"]):
            strategy.notify_failure(0)
        return {"backoff_ms_at_most": strategy.longest_backoff_ms}
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


def _choice(given: Given) -> dict[str, Any]:
    settings = {
        level: next((value for name, value in given.items() if name.startswith(level)), None)
        for level in ("code", "job", "cluster")
    }
    checkpointing = any(value for name, value in given.items() if name.startswith("checkpoint"))
    return {"strategy": choose_strategy(settings, checkpointing=checkpointing)}


def slow_task(version: str | None, given: Given) -> dict[str, Any]:
    if "first" in given:
        return {"sign": compare_execution_times(_time(given["first"]), _time(given["second"]))}
    options = SlowTaskOptions(given["baseline_ratio"], given["baseline_multiplier"], given["baseline_lower_bound_ms"])
    if "vertices" in given:
        return _vertices(given, options)
    tasks = [Execution(ExecutionState(task["state"]), _time(task)) for task in given["tasks"]]
    slow = find_slow_subtasks({"vertex": tasks}, options).get("vertex", ())
    return {"slow_tasks": list(slow), "number_of_slow_tasks": len(slow)}


def _vertices(given: Given, options: SlowTaskOptions) -> dict[str, Any]:
    """Two vertices some of whose subtasks have finished; one that is not decided yet has no subtasks."""
    vertices = {}
    for name in ("first", "second")[: given["vertices"]]:
        size = pick(given, f"parallelism_of_{name}", "parallelism", default=1)
        finished = pick(given, f"finished_of_{name}", "finished", default=0)
        executions = [Execution(ExecutionState.FINISHED, ExecutionTime(1))] * finished
        executions += [Execution(ExecutionState.DEPLOYING, ExecutionTime(2))] * (size - finished)
        vertices[name] = executions if given.get(f"{name}_vertex_initialised", True) else None
    slow = find_slow_subtasks(vertices, options)
    return {"number_of_slow_tasks": sum(map(len, slow.values()))}


def _time(entry: Given) -> ExecutionTime:
    return ExecutionTime(entry["time_ms"], number_or_none(entry["input_bytes"]))
