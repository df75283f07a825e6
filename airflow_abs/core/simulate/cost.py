"""What the parts of a run cost: seconds of regions, as recorded runs tell them (`fit`), and what Airflow adds.

A model, with few numbers. A subtask is cut into Spark tasks as Spark would cut it, and holds a slot for

    fixed seconds of its region + bytes that it reads * seconds per byte of its region

    Spark task 0  ├─── fixed ───┼── its bytes ──┤
    Spark task 1  ├── its bytes ──┤
    Spark task 2  ├── its bytes ──┤
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.spark_tasks import shuffle_partitions, source_task_bytes

_MIB = 2**20
_LEAST_SPARK_TASK = 4 * _MIB  # spark.sql.files.openCostInBytes
_MOST_SPARK_TASK = 128 * _MIB  # spark.sql.files.maxPartitionBytes


@dataclass(frozen=True, slots=True)
class AirflowCosts:
    """What Airflow adds, in seconds; docs/evidence says where the defaults come from.

    Args:
        hop: from the end of a region to the first subtask of the next. Recorded runs say it better.
        interval: between the starts of two subtasks of a region. Recorded runs say it better.
        hops_around: to get to `plan`, and for `commit` and `release`, each: a hop is two tasks, one after the other.
        task_cpu: CPU of a task instance that a worker runs, all of Airflow's components together.
        triggered_cpu: the same of a subtask that runs in the triggerer alone.
    """

    hop: float = 2.5
    interval: float = 0.27
    hops_around: float = 0.5
    task_cpu: float = 1.7
    triggered_cpu: float = 0.23


@dataclass(frozen=True, slots=True)
class Spread:
    """How wide a subtask runs: over its own part of the slots, unless its inputs are coalesced to one Spark task."""

    slots: int
    shuffles: bool
    coalesced: bool
    reads_source: bool = False

    def tasks(self, size: int) -> int:
        """Spark tasks that read this many bytes, cut as Spark cuts files."""
        if self.coalesced:
            return 1
        one_for_each_slot = divide_up(size, self.slots)
        largest = source_task_bytes(size) if self.reads_source else _MOST_SPARK_TASK
        task_bytes = min(max(one_for_each_slot, _LEAST_SPARK_TASK), largest)
        return max(1, divide_up(size, task_bytes))

    def files(self, size: int) -> int:
        """Files that the subtask writes of each result: one for each Spark task of its last stage."""
        if self.shuffles and not self.coalesced:
            return shuffle_partitions(size)
        return self.tasks(size)


@dataclass(frozen=True, slots=True)
class RegionCost:
    """`delay` as in `RegionWork`; `fixed` are slot seconds per subtask, `per_byte` slot seconds per byte read."""

    delay: float
    fixed: float
    per_byte: float

    def spark_tasks(self, size: int, spread: Spread) -> list[float]:
        """Seconds of the Spark tasks of a subtask of `size` bytes; the first has the fixed ones too."""
        tasks = spread.tasks(size)
        reading = self.per_byte * size / tasks
        return [self.fixed + reading, *[reading] * (tasks - 1)]


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a job: by region, and of what is around them. `hop` and `interval` as in `AirflowCosts`."""

    regions: Mapping[str, RegionCost]
    hop: float
    interval: float
    airflow: AirflowCosts = field(default_factory=AirflowCosts)
