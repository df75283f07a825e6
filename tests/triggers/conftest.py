"""What triggers push."""

from __future__ import annotations

from typing import Any

import pytest


class Supervisor:
    """In the place of the triggerer's: notes what would be stored as XCom."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def send(self, message: Any) -> None:
        place = message.model_dump(include={"dag_id", "run_id", "task_id", "map_index"})
        self.pushed[message.key] = (message.value, {**place, "_mapped_length": message.mapped_length})

    async def asend(self, message: Any) -> None:
        self.send(message)


@pytest.fixture
def pushed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What would be pushed as XCom: value and place by key. No Airflow answers here."""
    from airflow.sdk.execution_time import task_runner

    supervisor = Supervisor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", supervisor, raising=False)
    return supervisor.pushed
