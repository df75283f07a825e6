"""Topic slow_task: rules that no job uses yet."""

from __future__ import annotations

from typing import Any

from airflow_abs.core.not_yet_used.slow_tasks import (
    Execution,
    ExecutionState,
    ExecutionTime,
    SlowTaskOptions,
    compare_execution_times,
    find_slow_subtasks,
)
from flink_shapes.notation import Given, number_or_none, pick


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
