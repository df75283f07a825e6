"""What the parts of a run cost: seconds of regions, as recorded runs tell them, and what Airflow adds.

A model, with few numbers: a subtask costs its region's fixed seconds and its seconds per byte. They are those with
which the simulation of the recorded runs, on their slots, takes as long as the runs did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.spark_tasks import shuffle_partitions, source_task_bytes

_MIB = 2**20
_LEAST_SPARK_TASK = 4 * _MIB  # spark.sql.files.openCostInBytes
_MOST_SPARK_TASK = 128 * _MIB  # spark.sql.files.maxPartitionBytes


@dataclass(frozen=True, slots=True)
class AirflowCosts:
    """What Airflow adds, in seconds; docs/benchmarks.md says where the defaults come from.

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
        """Spark tasks that read so many bytes, cut as Spark cuts files."""
        if self.coalesced:
            return 1
        most = source_task_bytes(size) if self.reads_source else _MOST_SPARK_TASK
        return max(1, divide_up(size, min(max(divide_up(size, self.slots), _LEAST_SPARK_TASK), most)))

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
        """Seconds of the Spark tasks of a subtask of `size` bytes."""
        count = spread.tasks(size)
        share = self.per_byte * size / count
        return [self.fixed + share, *[share] * (count - 1)]


@dataclass(frozen=True, slots=True)
class Costs:
    """Of a job: by region, and of what is around them. `hop` and `interval` as in `AirflowCosts`."""

    regions: Mapping[str, RegionCost]
    hop: float
    interval: float
    airflow: AirflowCosts = field(default_factory=AirflowCosts)


def fit_line(points: Sequence[tuple[int, int, float]], least_fixed: float) -> tuple[float, float]:
    """Fixed seconds and seconds per byte, neither below 0, that come nearest to what was seen.

    Args:
        points: subtasks, bytes, slot seconds of each recorded run; errors count in proportion to the seconds.
        least_fixed: the fixed seconds if all runs were alike, so that they cannot tell; at most half of all seconds.
    """
    rows = [(n / max(w, 1e-9), b / max(w, 1e-9)) for n, b, w in points]
    nn, nb, bb = (sum(x * y for x, y in pairs) for pairs in _products(rows))
    n, b = (sum(column) for column in zip(*rows, strict=True))
    determinant = nn * bb - nb * nb
    if determinant > 1e-6 * nn * bb:
        fixed, per_byte = (n * bb - b * nb) / determinant, (b * nn - n * nb) / determinant
        if fixed >= 0 and per_byte >= 0:
            return fixed, per_byte
        return (0.0, b / bb) if fixed < 0 else (n / nn, 0.0)
    if not bb:
        return n / nn, 0.0
    fixed = min(least_fixed, n / nn / 2)
    return fixed, max(0.0, (b - fixed * nb) / bb)


def _products(rows: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    return [[(n, n) for n, _ in rows], [(n, b) for n, b in rows], [(b, b) for _, b in rows]]
