from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from uuid import uuid4

import pytest

from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.killing import SubtaskKiller

Worker = tuple[str, subprocess.Popen[bytes]]


@pytest.fixture
def workers() -> Iterator[list[Worker]]:
    """Two processes under the titles that Airflow gives to those that run tasks."""
    found = []
    for _ in range(2):
        instance_id = str(uuid4())
        title = [f"airflow worker -- {instance_id}", "60"]
        found.append((instance_id, subprocess.Popen(title, executable="/bin/sleep")))
    yield found
    for _, process in found:
        process.kill()
        process.wait()


def state(name: str, index: int, instance_id: str, task_id: str = "job.work.run") -> SubtaskState:
    return SubtaskState(task_id, index, name, 1, None, None, instance_id)


def test_the_first_subtask_that_runs_is_killed_and_no_other(workers: list[Worker]) -> None:
    (first, one), (second, other) = workers
    killer = SubtaskKiller("job.work.run")
    killer.look([state("queued", 0, first), state("running", 0, second, "job.other.run")])
    assert killer.killed is None
    states = [state("running", 0, str(uuid4())), state("running", 1, first), state("running", 2, second)]
    killer.look(states)  # of the first of them no process is there yet
    assert killer.killed == states[1]
    assert one.wait(30) == -signal.SIGKILL
    killer.look(states)
    assert other.poll() is None
