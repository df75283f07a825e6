"""Topics adaptive_states, slots and slow_task: rules that no job uses yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.not_yet_used.rescale import EnforceMinimalIncrease, EnforceParallelismChange
from airflow_abs.core.not_yet_used.slots import (
    ReactiveParallelism,
    VertexDemand,
    count_required_slots,
    decide_slot_parallelism,
    default_max_parallelism,
)
from airflow_abs.core.not_yet_used.slow_tasks import (
    Execution,
    ExecutionState,
    ExecutionTime,
    SlowTaskOptions,
    compare_execution_times,
    find_slow_subtasks,
)
from flink_shapes.notation import Given, number_or_none, pick


def slots(version: str | None, given: Given) -> dict[str, Any]:
    if "controller" in given:
        return {"rescale": _controller(given).should_rescale(_by_vertex(given["current"]), _by_vertex(given["new"]))}
    if "slot_sharing_groups" in given:
        groups = {
            name: [VertexDemand(v["vertex"], v.get("min_parallelism", 1), v["parallelism"]) for v in vertices]
            for name, vertices in given["slot_sharing_groups"].items()
        }
        answer: dict[str, Any] = {"required_slots": count_required_slots(groups)}
        if "free_slots" in given:
            answer["parallelism"] = decide_slot_parallelism(groups, given["free_slots"]).parallelism
        return answer
    most = number_or_none(given.get("max_parallelism"))
    reactive = ReactiveParallelism.of(given["parallelism"], most)
    answer = {
        "max_parallelism": reactive.max_parallelism,
        "adjusted_parallelism": reactive.parallelism,
        "default_max_parallelism": default_max_parallelism(given["parallelism"]),
    }
    if "rescale_max_to" in given:
        answer["can_rescale_max"] = reactive.can_raise_max_to(given["rescale_max_to"])
    return answer


def _controller(given: Given) -> EnforceMinimalIncrease | EnforceParallelismChange:
    if given["controller"] == "enforce-minimal-increase":
        return EnforceMinimalIncrease(given.get("min_parallelism_increase", 1))
    return EnforceParallelismChange()


def _by_vertex(parallelism: Any) -> Mapping[str, int]:
    return parallelism if isinstance(parallelism, Mapping) else {"vertex": parallelism}


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
