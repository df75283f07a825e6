from __future__ import annotations

import signal
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.killing import SubtaskKiller, kill_a_worker

Worker = tuple[str, subprocess.Popen[bytes]]

TASK = "job.work.run"


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


@dataclass(slots=True)
class Shots:
    """Stands in for processes: of the tries that it is asked to kill one of, it finds those in `running`."""

    running: set[str]
    asked: list[set[str]] = field(default_factory=list)

    def __call__(self, instance_ids: Collection[str]) -> str | None:
        self.asked.append(set(instance_ids))
        return min(self.running.intersection(instance_ids), default=None)


def state(index: int, name: str | None, instance_id: str, task_id: str = TASK, number: int = 1) -> SubtaskState:
    return SubtaskState(task_id, index, name, number, None, None, instance_id)


def test_the_process_of_a_try_is_killed_and_no_other(workers: list[Worker]) -> None:
    (first, one), (_, other) = workers
    assert kill_a_worker({str(uuid4()), first}) == first
    assert one.wait(30) == -signal.SIGKILL
    assert other.poll() is None


def test_a_try_whose_process_does_not_come_up_is_waited_for_within_a_bound() -> None:
    assert kill_a_worker({str(uuid4())}, seconds=0.1) is None


def test_only_tries_of_the_task_that_may_still_run_are_killed() -> None:
    shots = Shots(set())
    killer = SubtaskKiller([TASK], shots)
    killer.look([state(-1, None, "m"), state(0, "running", "o", "job.other.run")])
    assert shots.asked == []
    killer.look(
        [
            *(state(number, name, name) for number, name in enumerate(("scheduled", "queued", "running"))),
            *(state(3 + number, name, name) for number, name in enumerate(("success", "deferred", "failed"))),
        ]
    )
    assert shots.asked == [{"scheduled", "queued", "running"}]
    assert killer.killed is None


def test_a_try_is_lost_when_airflow_has_another_one_and_then_nothing_more_is_killed() -> None:
    shots = Shots({"a", "b"})
    killer = SubtaskKiller([TASK], shots)
    killer.look([state(0, "queued", "a"), state(1, "running", "b")])
    killer.look([state(0, "running", "a"), state(1, "running", "b")])  # Airflow has not noticed yet
    assert killer.killed is None
    killer.look([state(0, "up_for_retry", "a2"), state(1, "running", "b")])
    assert killer.killed == state(0, "queued", "a")
    killer.look([state(0, "running", "a2", number=2), state(1, "running", "b")])
    assert shots.asked == [{"a", "b"}]


@pytest.mark.parametrize("end", ["deferred", "success", "failed"])
def test_a_try_that_had_told_its_end_was_killed_too_late_and_another_one_is(end: str) -> None:
    shots = Shots({"a", "b"})
    killer = SubtaskKiller([TASK], shots)
    killer.look([state(0, "running", "a"), state(1, "queued", "b")])
    killer.look([state(0, "running", "a"), state(1, "running", "b")])
    killer.look([state(0, end, "a"), state(1, "running", "b")])
    assert shots.asked == [{"a", "b"}, {"b"}]
    killer.look([state(0, end, "a"), state(1, "up_for_retry", "b2")])
    assert killer.killed == state(1, "running", "b")


def test_where_all_of_one_task_were_too_late_the_next_one_is_aimed_at() -> None:
    shots = Shots({"a", "c"})
    killer = SubtaskKiller([TASK, "job.next.run"], shots)
    killer.look([state(0, "running", "a")])
    killer.look([state(0, "success", "a"), state(0, "scheduled", "c", "job.next.run")])
    killer.look([state(0, "success", "a"), state(0, "queued", "c2", "job.next.run", 2)])
    assert killer.killed == state(0, "scheduled", "c", "job.next.run")


def test_a_run_without_a_worker_in_time_has_lost_none() -> None:
    killer = SubtaskKiller([TASK], Shots(set()))
    killer.look([state(0, "running", "a")])
    killer.look([state(0, "success", "a")])
    assert killer.killed is None


def test_a_killed_try_that_is_not_in_the_run_any_more_is_given_up() -> None:
    killer = SubtaskKiller([TASK], Shots({"a", "b"}))
    killer.look([state(0, "running", "a")])
    killer.look([state(1, "running", "b")])
    killer.look([state(1, "up_for_retry", "b2")])
    assert killer.killed == state(1, "running", "b")
