"""The timeline of a DAG run: what each task instance did when, and the critical path through it.

Airflow's database says when a task was queued, began and ended, the exchange when its operation was on Spark.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from airflow_abs.core.timeline.account import account, describe_account
from airflow_abs.core.timeline.critical_path import Kind, Phase, Segment, Span, find_critical_path
from airflow_abs.core.timeline.slot_waits import Interval, find_full, split_wait
from airflow_abs.plugins.airflow_runs import ENDED, RunFacts, TaskFacts

_BARS = 20
"""Of more phases than that of one instance, what is shorter than such a part of it is joined for drawing."""

_QUEUED = "in Airflow's queue"
_AROUND = "starting and ending subtasks"
_DOING = {"plan": "plan", "decide": "decide", "commit": "commit", "release": "release"}
_NOT_RUN = frozenset({"skipped", "upstream_failed", "removed"})
_WAITS_FOR_RETRY = frozenset({"up_for_retry", "up_for_reschedule"})


@dataclass(frozen=True, slots=True)
class JobTimes:
    """A job as far as its exchange could be read: `operations` are those on Spark by region and index, in epoch
    seconds; `slots` None if the server does not say."""

    slots: int | None = None
    operations: Mapping[str, Mapping[int, Interval]] = field(default_factory=dict)


def read_timeline(
    run: RunFacts,
    tasks: Mapping[str, Sequence[TaskFacts]],
    upstream: Mapping[str, Sequence[str]],
    jobs: Mapping[str, JobTimes],
    now: float | None = None,
) -> dict[str, Any] | None:
    """What the page draws, in seconds since the run began; None before it did.

    Args:
        run: the DAG run.
        tasks: its task instances by task, those of the author's own tasks too.
        upstream: by task the tasks that come directly before it.
        jobs: by id of the task group.
        now: epoch seconds; the end of what has not ended.
    """
    if run.start is None:
        return None
    start = run.start.timestamp()
    end = max(start, run.end.timestamp() if run.end else time.time() if now is None else now)
    spans = _Spans(tasks, upstream, jobs, end).read()
    path = find_critical_path(spans, start, end)
    shares = account(path)
    lanes: dict[str, list[Any]] = {}
    for span in spans:
        bars = [[kind.value, *_since(start, *interval)] for kind, interval in _bars(span) if interval[1] > start]
        if bars:
            lanes.setdefault(span.task, []).append([span.name, bars])
    return {
        "seconds": round(end - start, 2),
        "told": describe_account(shares),
        "shares": [{"kind": each.kind.value, "label": each.label, "seconds": each.seconds} for each in shares],
        "path": [_segment_to_json(each, start) for each in path],
        "lanes": [{"task": task, "instances": instances} for task, instances in lanes.items()],
    }


def _bars(span: Span) -> list[tuple[Kind, Interval]]:
    """What is drawn of it. Of many phases the short ones are joined until they can be seen, as the kind that most of it
    is: a subtask that queues waits in two phases for each that has a slot before it."""
    if len(span.phases) <= _BARS:
        return [(each.kind, (each.start, each.end)) for each in span.phases]
    width = (span.end - span.start) / _BARS
    bars: list[tuple[Kind, Interval]] = []
    short: dict[Kind, float] = {}
    since = until = 0.0

    def add(kind: Kind, start: float, end: float) -> None:
        if bars and (last := bars[-1])[0] is kind and start - last[1][1] < width:
            start = bars.pop()[1][0]
        bars.append((kind, (start, end)))

    def add_short() -> None:
        if short:
            add(max(short, key=lambda kind: short[kind]), since, until)
            short.clear()

    for phase in span.phases:
        if phase.seconds >= width or (short and phase.start - until >= width):
            add_short()
        if phase.seconds >= width:
            add(phase.kind, phase.start, phase.end)
            continue
        since = since if short else phase.start
        short[phase.kind] = short.get(phase.kind, 0.0) + phase.seconds
        until = phase.end
        if until - since >= width:
            add_short()
    add_short()
    return bars


def _segment_to_json(segment: Segment, start: float) -> dict[str, Any]:
    since, until = _since(start, segment.phase.start, segment.phase.end)
    phase = segment.phase
    return {"name": segment.name, "kind": phase.kind.value, "label": phase.label, "start": since, "end": until}


def _since(start: float, *moments: float) -> list[float]:
    return [round(max(0.0, moment - start), 2) for moment in moments]


@dataclass(slots=True)
class _Spans:
    """Task instances of a run as spans, made in the order of their dependencies."""

    tasks: Mapping[str, Sequence[TaskFacts]]
    upstream: Mapping[str, Sequence[str]]
    jobs: Mapping[str, JobTimes]
    now: float
    found: dict[str, list[Span]] = field(default_factory=dict)
    full: dict[str, tuple[Interval, ...]] = field(default_factory=dict)

    def read(self) -> list[Span]:
        for job, times in self.jobs.items():
            operations = [each for region in times.operations.values() for each in region.values()]
            self.full[job] = find_full(operations, times.slots) if times.slots else ()
        for task in self.tasks:
            self._read_task(task)
        return [span for task in sorted(self.found, key=self._first_start) for span in self.found[task]]

    def _first_start(self, task: str) -> tuple[float, str]:
        return (min((span.start for span in self.found[task]), default=self.now), task)

    def _read_task(self, task: str) -> list[Span]:
        """Those before it first: a graph of tasks has no circle."""
        if task not in self.found:
            after = self._nearest(task)
            ready = max((span.end for other in after for span in self.found[other]), default=None)
            spans = (self._span(each, after, ready) for each in self.tasks.get(task, ()))
            self.found[task] = [span for span in spans if span is not None]
        return self.found[task]

    def _nearest(self, task: str) -> tuple[str, ...]:
        """What it came after: through tasks that did not run to those before them."""
        near: dict[str, None] = {}
        for other in self.upstream.get(task, ()):
            near.update(dict.fromkeys([other] if self._read_task(other) else self._nearest(other)))
        return tuple(near)

    def _span(self, facts: TaskFacts, after: tuple[str, ...], ready: float | None) -> Span | None:
        if facts.state in _NOT_RUN:
            return None
        job, inner = self._home(facts.task_id)
        name = self._name(facts, job, inner)
        phases = tuple(self._phases(facts, name, job, inner, ready))
        return Span(name, facts.task_id, after, phases) if phases else None

    def _home(self, task_id: str) -> tuple[str | None, str]:
        """Its job, and its name in there."""
        for job in self.jobs:
            if task_id.startswith(f"{job}."):
                return job, task_id.removeprefix(f"{job}.")
        return None, task_id

    def _name(self, facts: TaskFacts, job: str | None, inner: str) -> str:
        short = inner if len(self.jobs) == 1 else facts.task_id
        index = f"[{facts.map_index}]" if facts.map_index >= 0 else ""
        return (short.removesuffix(".run") if job else short) + index

    def _phases(self, facts: TaskFacts, name: str, job: str | None, inner: str, ready: float | None) -> list[Phase]:
        queued, start, first = map(_seconds, (facts.queued, facts.start, facts.first))
        if start is None:
            waits = queued is not None and facts.state == "queued"
            return [Phase(Kind.QUEUED, _QUEUED, queued, max(queued, self.now))] if queued is not None and waits else []
        # Of a task that runs again its row may still have the end of the try before.
        end = max(start, (_seconds(facts.end) if facts.state in ENDED else None) or self.now)
        if facts.state in _WAITS_FOR_RETRY:
            return [Phase(Kind.RETRY, f"failed tries of {name}", start, end)]
        begun = queued if queued is not None and queued <= start else start
        lead = begun if first is None else min(first, begun)
        region, _, what = inner.rpartition(".")
        full = self.full[job] if job is not None and what == "run" else ()
        # With a pool of Airflow's a subtask that waits for a slot is not queued yet.
        before = split_wait(lead if ready is None else ready, lead, full, Kind.AIRFLOW, "")
        phases = [each for each in before if each.kind is Kind.SLOTS]
        if lead < begun:
            phases.append(Phase(Kind.RETRY, f"failed tries of {name}", lead, begun))
        if begun < start:
            phases.append(Phase(Kind.QUEUED, _QUEUED, begun, start))
        if job is None or what != "run":
            return [*phases, Phase(Kind.TASK, _DOING.get(what, name) if job else name, start, end)]
        operation = self.jobs[job].operations.get(region, {}).get(facts.map_index)
        if operation is None or operation[0] > end:  # of this try nothing is known but its waits
            failed = ", which failed" if facts.state == "failed" else ""
            return [*phases, *split_wait(start, end, full, Kind.TASK, f"{name}{failed}")]
        return [*phases, *_subtask_phases(name, start, end, full, operation)]


def _subtask_phases(name: str, start: float, end: float, full: Sequence[Interval], operation: Interval) -> list[Phase]:
    """Worker, wait for a slot, Spark, worker again."""
    began, ended = max(start, operation[0]), min(end, max(start, operation[1]))
    phases = [*split_wait(start, began, full, Kind.TASK, _AROUND), Phase(Kind.SPARK, f"Spark in {name}", began, ended)]
    return [*phases, Phase(Kind.TASK, _AROUND, ended, end)] if ended < end else phases


def _seconds(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment is not None else None
