"""What a person does to a running run in Airflow: Spark hears of it within seconds, and the result is right."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from airflow_abs.demo.airflow_api import AirflowApiError
from airflow_abs.demo.services import AirflowServices
from tests.faults.conftest import STOP_SECONDS
from tests.spark_events import ended_operations, operations, running_tasks
from tests.task_instances import clear_task
from tests.waiting import SECONDS, wait_until

pytestmark = [pytest.mark.services, pytest.mark.spark]

RUN = "job.numbers.run"


@dataclass(slots=True)
class Running:
    """A run of two subtasks that go on when its gate is opened."""

    airflow: AirflowServices
    folder: Path
    run_id: str
    before: set[str] = field(default_factory=set)

    def start(self, day: int) -> None:
        self.before = operations(self.folder / "events")
        self.airflow.api.wait_for_dag("few", SECONDS)
        self.airflow.api.trigger_run("few", datetime(2026, 1, day, tzinfo=UTC), run_id=self.run_id)

    def await_in_flight(self, tries: tuple[int, int] = (1, 1)) -> set[str]:
        """Until both run on Spark and the triggerer awaits them, at these tries or later ones; their operations.

        A later one, because Airflow can lose a try of a task that is resumed soon after its deferral.
        """
        wait_until(lambda: self._are_awaited(tries) and len(self.running()) == len(tries), seen=self.describe)
        return self.running()

    def running(self) -> set[str]:
        return self.operations() - self.ended()

    def describe(self) -> str:
        states = [
            f"{each.task_id}[{each.map_index}] {each.state}, try {each.try_number}"
            for each in self.airflow.api.task_instances("few", self.run_id)
        ]
        found = f"operations {sorted(self.operations())}, of which {sorted(self.ended())} have ended"
        return f"{'; '.join(states)}; {found}; {running_tasks(self.airflow.spark_folder)} Spark tasks run"

    def operations(self) -> set[str]:
        return operations(self.folder / "events") - self.before

    def ended(self, how: str = "") -> set[str]:
        return self.operations() & ended_operations(self.folder / "events", how)

    def await_stopped(self, stopped: set[str], *, others_follow: bool = False) -> float:
        """Seconds until these have ended on Spark, and every Spark task with them unless others take their place."""
        seconds = wait_until(lambda: stopped <= self.ended(), STOP_SECONDS, seen=self.describe)
        if not others_follow:
            spark = self.airflow.spark_folder
            seconds += wait_until(lambda: running_tasks(spark) == 0, STOP_SECONDS, seen=self.describe)
        assert not self.ended("Finished")
        assert not self.output.exists()
        return seconds

    def request(self, method: str, what: str = "", **options: Any) -> None:
        self.airflow.api.request(method, f"/dags/few/dagRuns/{self.run_id}{what}", **options)

    def is_deleted(self) -> bool:
        try:
            self.request("DELETE")
        except AirflowApiError:  # "cannot be deleted in running state"
            return False
        return True

    @property
    def output(self) -> Path:
        return self.folder / "mart" / f"few-{self.run_id}"

    def open_gate(self) -> None:
        (self.folder / "mart" / "gates" / self.run_id).touch()

    def _are_awaited(self, tries: tuple[int, int]) -> bool:
        subtasks = [each for each in self.airflow.api.task_instances("few", self.run_id) if each.task_id == RUN]
        numbers = {each.map_index: each.try_number for each in subtasks if each.state == "deferred"}
        return all(
            least <= (number := numbers.get(index, 0)) and self._is_awaited(index, number)
            for index, least in enumerate(tries)
        )

    def _is_awaited(self, index: int, number: int) -> bool:
        try:
            log = self.airflow.api.task_log("few", self.run_id, RUN, map_index=index, try_number=number)
        except AirflowApiError:  # its log is not there yet
            return False
        return "the triggerer takes over" in log and "starting" in log.partition("the triggerer takes over")[2]


def test_what_somebody_marks_failed_stops_on_spark_within_seconds(airflow: AirflowServices, folder: Path) -> None:
    run = Running(airflow, folder, "marked-failed")
    run.start(2)
    started = run.await_in_flight()
    run.request("PATCH", json={"state": "failed"})
    print(f"marked failed: nothing of the run is left on Spark after {run.await_stopped(started):.1f} s")


def test_a_run_that_somebody_deletes_leaves_nothing_on_spark(airflow: AirflowServices, folder: Path) -> None:
    """Airflow deletes no running run: people mark it failed, and delete it as soon as that has been heard."""
    run = Running(airflow, folder, "deleted")
    run.start(3)
    started = run.await_in_flight()
    run.request("PATCH", json={"state": "failed"})
    wait_until(run.is_deleted, STOP_SECONDS)
    print(f"deleted: nothing of the run is left on Spark after {run.await_stopped(started):.1f} s")
    with pytest.raises(AirflowApiError, match="404"):
        run.request("GET")


def test_clearing_a_running_subtask_stops_it_alone_clearing_the_run_stops_all_and_the_result_is_right(
    airflow: AirflowServices, folder: Path
) -> None:
    run = Running(airflow, folder, "cleared")
    run.start(4)
    started = run.await_in_flight()
    clear_task(airflow.api, "few", run.run_id, RUN, map_index=0)
    wait_until(lambda: len(started & run.ended()) == 1, STOP_SECONDS, seen=run.describe)
    (other,) = started - run.ended()
    again = run.await_in_flight((2, 1))
    assert other not in run.ended()  # its sibling is left alone

    run.request("POST", "/clear", json={"dry_run": False, "only_failed": False})
    print(f"run cleared: what ran on Spark has ended after {run.await_stopped(again, others_follow=True):.1f} s")
    run.await_in_flight((3, 2))
    run.open_gate()
    assert airflow.api.wait_for_run("few", run.run_id, SECONDS) == "success"
    finished = run.ended("Finished")
    assert len(finished) == 2
    assert finished.isdisjoint(started | again)
    assert sorted(duckdb.sql(f"SELECT number FROM '{run.output}/*.parquet'").fetchall()) == [(1,), (2,)]
