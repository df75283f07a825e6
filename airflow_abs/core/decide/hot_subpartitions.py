"""Hot subpartitions of a join: one that is far above the others is dealt out to several subtasks.

Each of them reads the part that some producers wrote of the side that may be spread, and all of the other side, so
every pair of rows still meets once. What counts as hot, and how large a part should be, are Flink's rules (FLIP-475);
that a hot subpartition shares no subtask with others is ours: then what a subtask reads of an input is one rectangle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.core.decide.ranges import IndexRange, count_ranges_within, cut_by_bytes
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, RegionOptions
from airflow_abs.core.decide.skew import SkewOptions, compute_target_size

_SHARE_OF_BOUND = 2  # of the most subtasks that there may be, hot subpartitions take at most one in two


@dataclass(frozen=True, slots=True)
class HotPart:
    """What one subtask reads of a hot subpartition: that of `producers` of `input`, and all of the other input.

    `bytes` are those of both.
    """

    subpartition: int
    input: str
    producers: IndexRange
    bytes: int


def split_hot_subpartitions(inputs: RegionInputs, totals: Sequence[int], options: RegionOptions) -> list[HotPart]:
    """The parts of all hot subpartitions, in order; [] if none may be split, or none is worth it.

    `totals` are bytes by subpartition over all partitioned inputs.
    """
    is_given = options.parallelism is not None or options.single_subtask_reason is not None
    if not options.splittable or options.strategy != "balanced" or is_given:
        return []
    skew = SkewOptions(threshold_bytes=options.target_bytes)
    sides = [entry for entry in inputs.partitioned if entry.name in options.splittable]
    found: dict[int, list[HotPart]] = {}
    for side in sides:
        sizes = side.bytes_by_subpartition()
        threshold = skew.threshold_for(sizes)
        target = compute_target_size(sizes, threshold, options.target_bytes)
        for subpartition, size in enumerate(sizes):
            if size > threshold:
                parts = _split(side, subpartition, totals[subpartition] - size, target)
                if len(parts) > len(found.get(subpartition, [None])):
                    found[subpartition] = parts
    return _within(found, options.max_parallelism // _SHARE_OF_BOUND)


def _split(side: BlockingInput, subpartition: int, other_bytes: int, target: int) -> list[HotPart]:
    """Cut along the producers. The other side counts in every part, whose own rows may still be half a target."""
    sizes = [row[subpartition] for row in side.bytes_by_partition]
    own_target = max(target - other_bytes, target // 2, 1)
    ranges = cut_by_bytes(sizes, count_ranges_within(sizes, own_target))
    return [HotPart(subpartition, side.name, span, sum(sizes[span.start : span.stop]) + other_bytes) for span in ranges]


def _within(found: dict[int, list[HotPart]], most: int) -> list[HotPart]:
    """The largest ones first, as long as there is room; back in the order of their numbers."""
    chosen: list[Sequence[HotPart]] = []
    for parts in sorted(found.values(), key=lambda parts: sum(part.bytes for part in parts), reverse=True):
        if sum(map(len, chosen)) + len(parts) <= most:
            chosen.append(parts)
    return [part for parts in sorted(chosen, key=lambda parts: parts[0].subpartition) for part in parts]
