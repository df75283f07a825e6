"""Kills the worker process of one subtask, as a machine that dies would."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_abs.demo.airflow_api import SubtaskState

_ALIVE = frozenset({"scheduled", "queued", "running"})
_WAIT_SECONDS = 2.0
_LOOK_SECONDS = 0.02
_TITLE = b"airflow worker -- "


def kill_a_worker(instance_ids: Collection[str], seconds: float = _WAIT_SECONDS) -> str | None:
    """Kill the first process that runs one of these tries, and return its id; None if none has come up in time.

    It is killed as soon as it is there, while it still imports the DAG: then it cannot have told Airflow its end yet.
    """
    deadline = time.monotonic() + seconds
    while True:
        for instance_id, process in _find_workers(instance_ids):
            with suppress(ProcessLookupError):  # it has ended meanwhile
                os.kill(process, signal.SIGKILL)
                return instance_id
        if time.monotonic() > deadline:
            return None
        time.sleep(_LOOK_SECONDS)


@dataclass(slots=True)
class SubtaskKiller:
    """Looks at the task instances of a run until it has killed one of the subtasks of `task_ids`; `killed` is it.

    A process that had told Airflow its end, or its deferral, was killed too late: Airflow continues with the same try.
    Then another one is killed, until a try is lost. `kill` gets ids of tries, kills the process of one of them and
    returns its id, or None.
    """

    task_ids: Collection[str]
    kill: Callable[[Collection[str]], str | None] = kill_a_worker
    killed: SubtaskState | None = None
    _aimed: SubtaskState | None = None

    def look(self, states: Sequence[SubtaskState]) -> None:
        if self._aimed is not None:
            self._see_what_became_of(self._aimed, states)
        if self.killed is None and self._aimed is None:
            found = {each.id: each for each in states if self._is_target(each)}
            name = self.kill(found.keys()) if found else None
            self._aimed = None if name is None else found[name]

    def _is_target(self, state: SubtaskState) -> bool:
        return state.task_id in self.task_ids and state.map_index >= 0 and state.state in _ALIVE

    def _see_what_became_of(self, aimed: SubtaskState, states: Sequence[SubtaskState]) -> None:
        """Airflow gives the next try an id of its own; while the lost one still runs there, it has not noticed yet."""
        place = (aimed.task_id, aimed.map_index)
        now = next((each for each in states if (each.task_id, each.map_index) == place), None)
        if now is not None and now.id != aimed.id:
            self.killed, self._aimed = aimed, None
        elif now is None or now.state not in _ALIVE:
            self._aimed = None


def _find_workers(instance_ids: Collection[str]) -> list[tuple[str, int]]:
    """Id and process of each of these tries that runs: Airflow gives the process the id as a title."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended meanwhile
            title = (process / "cmdline").read_bytes()
            if title.startswith(_TITLE):
                instance_id = title[len(_TITLE) :].partition(b"\0")[0].decode(errors="replace").strip()
                if instance_id in instance_ids:
                    found.append((instance_id, int(process.name)))
    return found
