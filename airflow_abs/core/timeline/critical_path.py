"""What a run waited for, second by second: its critical path.

The critical path method (J. E. Kelley and M. R. Walker, Critical-path planning and scheduling, 1959) finds the chain of
tasks that decides how long a project takes. Of a run that has happened nothing has to be predicted: the chain is found
backwards from the end, each time to whatever ended last of what had to be there before (C.-Q. Yang and B. P. Miller,
Critical path analysis for the execution of parallel and distributed programs, 1988).

    plan    ├─────┤
    orders        ·├───────────┤
    customers     ·├───┤       ·
    enriched                   ··├─────────┤
    path    ├plan─┤├─orders────┤·├enriched─┤       · is time between two tasks
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise

BETWEEN = "Airflow between tasks"


class Kind(StrEnum):
    """What was going on: an operation on Spark; a wait, because other subtasks held all slots; the work of a task's own
    process; tries that failed and the wait after them; a wait in Airflow's queue; nothing that any task knows of."""

    SPARK = "spark"
    SLOTS = "slots"
    TASK = "task"
    RETRY = "retry"
    QUEUED = "queued"
    AIRFLOW = "airflow"


@dataclass(frozen=True, slots=True)
class Phase:
    """From `start` to `end`, in seconds of any one clock; `label` says what, for people."""

    kind: Kind
    label: str
    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Span:
    """One instance of a task. All instances of the tasks in `after` had to end before it.

    `phases`, at least one, are in order and do not overlap; there may be gaps between them.

    Raises:
        ValueError: a phase is missing, or begins before the one before it has ended, or ends before it begins.
    """

    name: str
    task: str
    after: tuple[str, ...]
    phases: tuple[Phase, ...]

    def __post_init__(self) -> None:
        moments = [moment for phase in self.phases for moment in (phase.start, phase.end)]
        if not moments or any(one > other for one, other in pairwise(moments)):
            raise ValueError(f"{self.name}: expected phases one after the other, found {moments}")

    @property
    def start(self) -> float:
        return self.phases[0].start

    @property
    def end(self) -> float:
        return self.phases[-1].end


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the path. `name` is the span that it belongs to; of time between tasks the one that came next, None at
    the end of the run."""

    phase: Phase
    name: str | None


def find_critical_path(
    spans: Sequence[Span], start: float, end: float, *, between: str = BETWEEN
) -> tuple[Segment, ...]:
    """What the run waited for, in order: segments cover `start` to `end` without gap or overlap; () if that is nothing.

    What is outside of `start` to `end` is cut off. If a task began before one that it comes after had ended (clocks
    of two hosts differ, or that one ran again later), it counts from its own beginning.

    Args:
        spans: all that is known to have happened.
        start: of the run, on the clock of the spans.
        end: of the run, or now.
        between: label of time in which no task of the path did anything.
    """
    by_task: dict[str, list[Span]] = {}
    for span in spans:
        by_task.setdefault(span.task, []).append(span)
    found: list[Segment] = []
    moment, before, follower = end, tuple(by_task), None
    while moment > start:
        known = [span for task in before for span in by_task.get(task, ()) if span.start < moment]
        # Of several that still run the one that began first has been waited for longest.
        last = max(known, key=lambda span: (min(span.end, moment), -span.start, span.name), default=None)
        if last is None:
            found.append(Segment(Phase(Kind.AIRFLOW, between, start, moment), follower))
            break
        found += _backwards(last, max(start, last.start), moment, follower, between)
        moment, before, follower = last.start, last.after, last.name
    return _merged(reversed(found))


def _backwards(span: Span, start: float, end: float, follower: str | None, between: str) -> Iterator[Segment]:
    """From `end` back to `start`: the span's phases, and what lies between and after them."""
    moment, waited_for = end, follower
    for phase in reversed(span.phases):
        low, high = max(phase.start, start), min(phase.end, moment)
        if low < high:
            if high < moment:
                yield Segment(Phase(Kind.AIRFLOW, between, high, moment), waited_for)
            yield Segment(replace(phase, start=low, end=high), span.name)
            moment, waited_for = low, span.name
    if start < moment:
        yield Segment(Phase(Kind.AIRFLOW, between, start, moment), waited_for)


def _merged(segments: Iterator[Segment]) -> tuple[Segment, ...]:
    """Neighbours of the same label and name as one."""
    merged: list[Segment] = []
    for segment in segments:
        last = merged[-1] if merged else None
        if last is not None and (last.name, last.phase.label) == (segment.name, segment.phase.label):
            merged[-1] = replace(last, phase=replace(last.phase, end=segment.phase.end))
        else:
            merged.append(segment)
    return tuple(merged)
