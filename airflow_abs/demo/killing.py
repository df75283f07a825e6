"""Kills the worker process of one subtask, as a machine that dies would."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.demo.airflow_api import SubtaskState


@dataclass(slots=True)
class SubtaskKiller:
    """Looks at the task instances of a run until a subtask of `task_id` runs, and kills that one; `killed` is it."""

    task_id: str
    killed: SubtaskState | None = None

    def look(self, states: Sequence[SubtaskState]) -> None:
        running = (each for each in states if each.task_id == self.task_id and each.state == "running")
        if self.killed is None:
            self.killed = next((each for each in running if _kill_worker(each.id)), None)


def find_workers(instance_id: str) -> list[int]:
    """The processes that run this try of a task instance: Airflow gives them its id as a title."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            if f"airflow worker -- {instance_id}" in (process / "cmdline").read_bytes().decode(errors="replace"):
                found.append(int(process.name))
    return found


def _kill_worker(instance_id: str) -> bool:
    """False if there is none: it has not begun, or has ended by itself."""
    workers = find_workers(instance_id)
    try:
        for process in workers:
            os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return bool(workers)
