"""What triggers push, and what they ask."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest


class Instance(NamedTuple):
    """A mapped task instance, as a trigger knows its own."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


class Supervisor:
    """In the place of the triggerer's: notes what would be stored as XCom, and says which tasks are in a state."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}
        self.counts: list[int] = []
        self.states: dict[str, str | None] = {}
        self.asked: list[dict[str, Any]] = []

    def send(self, message: Any) -> Any:
        from airflow.sdk.execution_time.comms import GetTaskStates, GetTICount, TaskStatesResult, TICount

        if isinstance(message, GetTICount | GetTaskStates):
            self.asked.append(message.model_dump(exclude={"type"}, exclude_none=True))
        if isinstance(message, GetTaskStates):
            return TaskStatesResult(task_states=dict.fromkeys(message.run_ids or (), self.states))
        if isinstance(message, GetTICount):
            return TICount(count=self.counts.pop(0) if self.counts else 1)
        place = message.model_dump(include={"dag_id", "run_id", "task_id", "map_index"})
        self.pushed[message.key] = (message.value, {**place, "_mapped_length": message.mapped_length})
        return None

    async def asend(self, message: Any) -> Any:
        """Below Airflow 3.2 all is asked so."""
        return self.send(message)


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Supervisor:
    """No Airflow answers here: `counts` are what is answered next when it is asked for a number of tasks, then 1."""
    from airflow.sdk.execution_time import task_runner

    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor


@pytest.fixture
def pushed(supervisor: Supervisor) -> dict[str, Any]:
    """What would be pushed as XCom: value and place by key."""
    return supervisor.pushed
