"""When Spark tasks run on a given number of slots, first come, first served: the clock of a simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, heapreplace
from itertools import count

from airflow_abs.core.checks import check_int


@dataclass(frozen=True, slots=True)
class RegionWork:
    """What a region gives the slots to do. All times are seconds.

    `after` are the regions that it waits for; `delay` is from their end (from the start of `plan`, if there are none)
    to the start of its first subtask, `interval` from there to each further one. `subtasks` holds for each subtask, at
    least one, the seconds of its Spark tasks, at least one, a slot each.
    """

    name: str
    after: tuple[str, ...]
    delay: float
    interval: float
    subtasks: Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class RegionSpan:
    """Seconds since the start of `plan`: the last producer's end, the first subtask's start, the last one's end."""

    ready: float
    start: float
    end: float

    @property
    def seconds(self) -> float:
        """From the first start to the last end."""
        return self.end - self.start


def schedule(regions: Sequence[RegionWork], slots: int) -> dict[str, RegionSpan]:
    """Let all regions run, each when all before it have ended; spans in the order of `regions`, which is topological.

    A slot that falls free takes the Spark task that has waited longest.
    """
    check_int("slots", slots, at_least=1)
    clock = _Clock([0.0] * slots)
    clock.release_ready(regions)
    while clock.queue:
        ended = clock.run_next()
        if ended is not None:
            clock.release_ready(regions)
    return {region.name: clock.spans[region.name] for region in regions}


class _Clock:
    """Tasks leave the queue in the order in which they were released: whatever is released later is later in time."""

    def __init__(self, free: list[float]) -> None:
        self.free = free
        self.queue: list[tuple[float, int, str, float]] = []  # released, number, region, seconds
        self.numbers = count()
        self.open_tasks: dict[str, int] = {}
        self.spans: dict[str, RegionSpan] = {}

    def release_ready(self, regions: Sequence[RegionWork]) -> None:
        """Put the tasks of all regions into the queue that wait for nothing any more."""
        for region in regions:
            if region.name not in self.open_tasks and all(self.open_tasks.get(name) == 0 for name in region.after):
                self._release(region)

    def _release(self, region: RegionWork) -> None:
        ready = max((self.spans[name].end for name in region.after), default=0.0)
        start = ready + region.delay
        self.spans[region.name] = RegionSpan(ready, start, start)
        self.open_tasks[region.name] = sum(map(len, region.subtasks))
        for index, tasks in enumerate(region.subtasks):
            for seconds in tasks:
                heappush(self.queue, (start + index * region.interval, next(self.numbers), region.name, seconds))

    def run_next(self) -> str | None:
        """Run the first task in the queue; the region, if it was its last one."""
        released, _, name, seconds = heappop(self.queue)
        end = max(self.free[0], released) + seconds
        heapreplace(self.free, end)
        span = self.spans[name]
        self.spans[name] = RegionSpan(span.ready, span.start, max(span.end, end))
        self.open_tasks[name] -= 1
        return None if self.open_tasks[name] else name
