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
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.phases import Proceed, RescaleOptions, RescalePhases
from airflow_abs.core.streaming.state_events import (
    Cancel,
    Event,
    ExecutionEnded,
    ExecutionStatus,
    Fail,
    Start,
    Suspend,
)
from airflow_abs.core.streaming.states import TRANSITIONS, SchedulerStates, State
from airflow_abs.core.streaming.timers import StartTimer, TimerQueue
from flink_shapes.notation import Given, number_or_none, pick, resources_of


def adaptive_states(version: str | None, given: Given) -> dict[str, Any]:
    return _phases(given) if "steps" in given else _states(given)


class _Driver:
    """Keeps the clock and the timers that a machine asked for, and notes whether it went on."""

    def __init__(self, machine: Any) -> None:
        self.machine = machine
        self.now = 0
        self.resources = Resources.INSUFFICIENT
        self.proceeded = False
        self._timers = TimerQueue()
        self.take(machine.start())

    def take(self, actions: Any) -> None:
        for action in actions:
            if isinstance(action, StartTimer):
                self._timers.add(action)
            self.proceeded |= isinstance(action, Proceed)

    def run_due_timers(self) -> None:
        while timer := self._timers.pop_due(self.now):
            self.take(self.machine.on_timer(timer, self.now, self.resources))

    def step(self, step: Mapping[str, Any]) -> str | None:
        """Apply one step; the name of an event is left to the caller."""
        if "resources" in step:
            self.resources = resources_of(step)
        self.now += step.get("advance_s", 0)
        if "advance_s" in step:
            self.run_due_timers()
        return step.get("event")


def _phases(given: Given) -> dict[str, Any]:
    options = RescaleOptions(given["cooldown_s"], given["stabilization_s"], given["max_trigger_delay_s"])
    driver = _Driver(RescalePhases(options, 0))
    seen = []
    for step in given["steps"]:
        match driver.step(step):
            case "change":
                driver.take(driver.machine.on_change(driver.now, driver.resources))
                driver.run_due_timers()
            case "trigger":
                driver.take(driver.machine.on_trigger(driver.resources))
                driver.run_due_timers()
        seen.append(driver.machine.phase.value)
    return {"phase_after_each_step": seen, "state_transition_triggered": driver.proceeded}


def _states(given: Given) -> dict[str, Any]:
    state = State(given["state"])
    if "event" not in given:
        return {"may_go_to": [target.value for target in TRANSITIONS[state]]}
    machine = SchedulerStates(state=state)
    machine.handle(_event(given), 0)
    return {"state": machine.state.value, "job_status": machine.job_status}


def _event(given: Given) -> Event:
    name = given["event"].lower()
    if "cancel" in name:
        return Cancel()
    if "suspend" in name:
        return Suspend()
    if "fail" in name:
        return Fail(name, 0 if given.get("can_restart") else None)
    return Start() if "start" in name else ExecutionEnded(ExecutionStatus.FINISHED)


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
