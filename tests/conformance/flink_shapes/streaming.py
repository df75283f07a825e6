"""A streaming job: its states, and the phases of a rescale."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.phases import Proceed, RescaleOptions, RescalePhases
from airflow_abs.core.streaming.state_events import Cancel
from airflow_abs.core.streaming.states import SchedulerStates, State
from airflow_abs.core.streaming.timers import StartTimer, TimerQueue
from flink_shapes.notation import Given, resources_of


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
    machine = SchedulerStates(state=State(given["state"]))
    if "event" not in given:
        return {"may_go_to": [target.value for target in machine.may_go_to]}
    assert given["event"] == "cancel"
    machine.handle(Cancel(), 0)
    return {"state": machine.state.value, "job_status": machine.job_status}
