"""The timeline of a run, from made-up task instances and operations."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.plugins.airflow_runs import RunFacts, TaskFacts
from airflow_abs.plugins.run_timeline import JobTimes, read_timeline
from tests.plugins import shown_run

START = datetime(2026, 1, 4, tzinfo=UTC)
UPSTREAM = {
    "job.a.decide": ["job.plan"],
    "job.a.run": ["job.a.decide"],
    "job.b.decide": ["job.plan", "job.a.run"],
    "job.b.run": ["job.b.decide", "job.a.run"],
    "tell": ["job.b.run"],
}


def at(seconds: float | None) -> datetime | None:
    return None if seconds is None else START + timedelta(seconds=seconds)


def epoch(seconds: float) -> float:
    return START.timestamp() + seconds


def task(
    name: str, start: float | None, end: float | None, *, index: int = -1, state: str = "success", **more: float
) -> TaskFacts:
    """`queued` and `first` as seconds of the run."""
    number = 2 if "first" in more else 1
    return TaskFacts(name, index, state, number, at(start), at(end), at(more.get("queued")), at(more.get("first")))


def read(tasks: list[TaskFacts], jobs: dict[str, JobTimes], end: float | None, now: float = 0.0) -> Any:
    by_task: dict[str, list[TaskFacts]] = {}
    for each in tasks:
        by_task.setdefault(each.task_id, []).append(each)
    run = RunFacts("dag", "run", "success" if end else "running", START, START, at(end))
    return read_timeline(run, by_task, UPSTREAM, jobs, epoch(now))


def path(timeline: Any) -> list[tuple[str, str | None, float, float]]:
    return [(each["label"], each["name"], each["start"], each["end"]) for each in timeline["path"]]


def test_every_second_of_a_run_is_told() -> None:
    tasks = [
        task("job.plan", 1.0, 3.0, queued=0.5),
        task("job.a.decide", 4.0, 4.5),
        task("job.a.run", 5.0, 9.0, index=0),
        task("job.a.run", 5.0, 12.0, index=1, queued=4.75),
        task("tell", 13.0, 14.0),
    ]
    operations = {"a": {0: (epoch(5.5), epoch(8.5)), 1: (epoch(9.0), epoch(11.5))}}
    timeline = read(tasks, {"job": JobTimes(1, operations)}, 14.5)
    assert path(timeline) == [
        ("Airflow between tasks", "plan", 0.0, 0.5),
        ("in Airflow's queue", "plan", 0.5, 1.0),
        ("plan", "plan", 1.0, 3.0),
        ("Airflow between tasks", "a.decide", 3.0, 4.0),
        ("decide", "a.decide", 4.0, 4.5),
        ("Airflow between tasks", "a[1]", 4.5, 4.75),
        ("in Airflow's queue", "a[1]", 4.75, 5.0),
        ("starting and ending subtasks", "a[1]", 5.0, 5.5),
        ("waiting for a slot", "a[1]", 5.5, 8.5),  # the only slot was a[0]'s
        ("starting and ending subtasks", "a[1]", 8.5, 9.0),
        ("Spark in a[1]", "a[1]", 9.0, 11.5),
        ("starting and ending subtasks", "a[1]", 11.5, 12.0),
        ("Airflow between tasks", "tell", 12.0, 13.0),
        ("tell", "tell", 13.0, 14.0),
        ("Airflow between tasks", None, 14.0, 14.5),
    ]
    assert timeline["told"] == (
        "14.5 s: 3.2 s Airflow between tasks, 3.0 s waiting for a slot, 2.5 s Spark in a[1], 2.0 s plan, "
        "1.5 s starting and ending subtasks, 2.3 s other"
    )


def test_what_was_skipped_is_passed_over() -> None:
    """b runs a's work today: it waited for `plan`."""
    tasks = [
        task("job.plan", 0.0, 2.0),
        task("job.a.decide", None, None, state="skipped"),
        task("job.a.run", 2.0, 2.0, state="skipped"),
        task("job.b.decide", 3.0, 4.0),
    ]
    timeline = read(tasks, {"job": JobTimes()}, 4.0)
    assert [name for _, name, _, _ in path(timeline)] == ["plan", "b.decide", "b.decide"]
    assert [lane["task"] for lane in timeline["lanes"]] == ["job.plan", "job.b.decide"]


def test_failed_tries_and_waits_for_the_next_are_told_as_such() -> None:
    tasks = [task("job.plan", 6.0, 8.0, first=1.0, queued=5.0), task("job.a.decide", 9.0, 9.5, state="up_for_retry")]
    assert path(read(tasks, {"job": JobTimes()}, None, 12.0)) == [
        ("Airflow between tasks", "plan", 0.0, 1.0),
        ("failed tries of plan", "plan", 1.0, 5.0),
        ("in Airflow's queue", "plan", 5.0, 6.0),
        ("plan", "plan", 6.0, 8.0),
        ("Airflow between tasks", "a.decide", 8.0, 9.0),
        ("failed tries of a.decide", "a.decide", 9.0, 12.0),
    ]


def test_a_living_run_is_told_up_to_now() -> None:
    tasks = [
        task("job.plan", 0.0, 2.0),
        task("job.a.decide", 2.0, 3.0),
        task("job.a.run", 4.0, None, index=0, state="deferred"),
        task("job.a.run", None, None, index=1, state="queued", queued=3.5),
    ]
    timeline = read(tasks, {"job": JobTimes(2, {"a": {}})}, None, 6.0)
    assert path(timeline)[-2:] == [
        ("Airflow between tasks", "a[1]", 3.0, 3.5),
        ("in Airflow's queue", "a[1]", 3.5, 6.0),
    ]
    assert [bars for _, bars in timeline["lanes"][-1]["instances"]] == [[["task", 4.0, 6.0]], [["queued", 3.5, 6.0]]]


def test_a_wait_for_a_pool_is_a_wait_for_a_slot_while_all_are_taken() -> None:
    tasks = [
        task("job.a.decide", 0.0, 1.0),
        task("job.a.run", 1.0, 5.0, index=0),
        task("job.a.run", 6.0, 9.0, index=1, queued=5.5),
    ]
    operations = {"a": {0: (epoch(2.0), epoch(5.0)), 1: (epoch(6.0), epoch(9.0))}}
    assert path(read(tasks, {"job": JobTimes(1, operations)}, 9.0))[1:] == [
        ("Airflow between tasks", "a[1]", 1.0, 2.0),
        ("waiting for a slot", "a[1]", 2.0, 5.0),
        ("Airflow between tasks", "a[1]", 5.0, 5.5),
        ("in Airflow's queue", "a[1]", 5.5, 6.0),
        ("Spark in a[1]", "a[1]", 6.0, 9.0),
    ]


def test_with_two_jobs_names_say_whose_they_are() -> None:
    tasks = [task("job.plan", 0.0, 1.0), task("other.a.run", 1.0, 2.0, index=0)]
    timeline = read(tasks, {"job": JobTimes(), "other": JobTimes()}, 2.0)
    assert [lane["instances"][0][0] for lane in timeline["lanes"]] == ["job.plan", "other.a[0]"]


def test_a_run_that_has_not_begun_has_no_timeline() -> None:
    assert read_timeline(RunFacts("dag", "run", "queued", START, None, None), {}, {}, {}) is None


@pytest.mark.parametrize("failed", [None, 3])
def test_the_shares_of_a_believable_run_come_to_its_length(tmp_path: Path, failed: int | None) -> None:
    run = shown_run.shop_run(tmp_path, failed=failed)
    timeline = shown_run.told_of(tmp_path, run, failed)["timeline"]
    assert sum(share["seconds"] for share in timeline["shares"]) == pytest.approx(timeline["seconds"], abs=0.05)
    assert timeline["told"].partition(":")[0] == f"{timeline['seconds']:.1f} s"
    bars = [bar for lane in timeline["lanes"] for _, bars in lane["instances"] for bar in bars]
    assert all(start <= end <= timeline["seconds"] for _, start, end in bars)


def test_a_thousand_subtasks_that_queue_for_two_slots_are_drawn_by_what_can_be_seen() -> None:
    """Each subtask waits in two phases for every earlier one: half a million bars, and only a few are drawn."""
    count, seconds = 1000, 358.0
    began = [8.0 + 0.7 * (index // 2) + 0.1 * (index % 2) for index in range(count)]
    tasks = [task("job.plan", 0.0, 5.0), task("job.a.decide", 6.0, 7.0)]
    tasks += [task("job.a.run", 8.0, each + 1.0, index=index) for index, each in enumerate(began)]
    operations = {index: (epoch(each), epoch(each + 0.45)) for index, each in enumerate(began)}
    timeline = read(tasks, {"job": JobTimes(2, {"a": operations})}, seconds)
    assert len(json.dumps(timeline["lanes"])) < 1000 * count
    lanes = {each["task"]: each["instances"] for each in timeline["lanes"]}
    for (_, bars), begin in zip(lanes["job.a.run"], began, strict=True):
        assert bars[0][1] == 8.0
        assert bars[-1][2] == pytest.approx(begin + 1.0, abs=0.01)
        assert all(one[2] <= other[1] + 0.01 for one, other in pairwise(bars))
    waits = [each for each in path(timeline) if each[0] == "waiting for a slot"]
    assert len(waits) > 400
