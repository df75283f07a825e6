"""Whether rows that are read by range are sorted by subpartition when they are written.

Of a sorted file a reader skips the pages that others want; of any other it decodes all rows and drops those. Sorting is
paid once, by the writer; decoding by every reader. So a few readers do better without. Either way they get the same
rows, however many of them come in the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.graph.job_graph import Region
from airflow_abs.core.graph.partitioning import PARTITIONED, Partitioning
from airflow_abs.core.wording import format_count

MOST_READERS = 6
"""With this many readers, filtering is still cheaper than sorting; with eight it is even (docs/evidence)."""


@dataclass(frozen=True, slots=True)
class DaysBytes:
    """Rather too many than too few: what each vertex may write today, and what the sources hold, by vertex."""

    outputs: Mapping[str, int]
    sources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RowOrder:
    """`readers` are the subtasks that are expected to read a result, each a range of it; None if unknown."""

    is_sorted: bool
    readers: int | None
    reason: str

    def describe(self, came: int | None) -> str:
        """The reason, and how many subtasks came to read it; None: they are not decided yet."""
        if came is None:
            return self.reason
        told = f"{self.reason}; {came:,} came"
        if came > MOST_READERS and not self.is_sorted:
            return f"{told}, for whom sorting would have paid"
        return told


def choose_row_order(readers: int | None) -> RowOrder:
    """The rule: sorted from `MOST_READERS` + 1 on, or if the number of readers is unknown.

    Args:
        readers: expected subtasks of all regions that read the result by range.
    """
    if readers is None:
        return RowOrder(True, None, "sorted by subpartition, because the bytes are not known")
    expected = f"{format_count(readers, 'subtask')} expected to read them"
    if readers > MOST_READERS:
        return RowOrder(True, readers, f"sorted by subpartition, with {expected}, each only its own pages")
    return RowOrder(False, readers, f"not sorted, with {expected}: up to {MOST_READERS} filter for less than a sort")


def reads_ranges(region: Region) -> bool:
    """Whether each of its subtasks reads a range of subpartitions."""
    return any(edge.partitioning in PARTITIONED for edge in region.inputs)


def expect_readers(region: Region, day: DaysBytes, options: RegionOptions) -> int:
    """Subtasks that a region that reads ranges would get if these bytes came, in subpartitions that are all alike.

    Args:
        region: as it runs today.
        day: what it may read.
        options: the region's.
    """
    divided = {edge.producer for edge in region.inputs if edge.partitioning is not Partitioning.BROADCAST}
    written = sum(day.outputs[name] for name in divided)
    even = divide_up(written, region.subpartitions)
    rows = BlockingInput("rows", Partitioning.REBALANCE, [[even] * region.subpartitions])
    splits = divide_up(sum(day.sources.get(vertex, 0) for vertex in region.vertices), options.target_bytes)
    sources = [SourceInput("sources", [options.target_bytes] * splits)] if splits else []
    return decide_region(region.name, [rows], sources, options).parallelism
