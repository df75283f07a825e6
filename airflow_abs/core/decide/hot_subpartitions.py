"""Hot subpartitions of a join: one that is far above the others is distributed to several subtasks.

Each of them reads the part that some producers wrote of the side that may be spread, and all of the other side, so
every pair of rows still meets once.

    bytes of the side that may be spread        subtasks 0 1 2   read ranges of the others
      subpartition   0   1   2   3                       3 4 5   read subpartition 1: one row each of this side,
      producer 0    20 200  20  20                               and all that the other side has in it
      producer 1    20 200  20  20
      producer 2    20 200  20  20   (1 is hot)

What counts as hot, and how large a part should be, are Flink's rules (FLIP-475); that a hot subpartition shares no
subtask with others is ours: then what a subtask reads of an input is one rectangle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from airflow_abs.core.checks import check_sizes
from airflow_abs.core.decide.ranges import IndexRange, count_ranges_within, cut_by_bytes
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionInputs, RegionOptions
from airflow_abs.core.errors import InvalidValueError

HOT_FACTOR = 4.0  # times the median: what is above it is hot
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


@dataclass(frozen=True, slots=True)
class HotSubpartition:
    """One that is hot in an input, and its bytes; `median` is that of the input's subpartitions which hold any."""

    input: str
    subpartition: int
    bytes: int
    median: int


def find_hottest(bytes_by_input: Mapping[str, Sequence[int]], target_bytes: int) -> HotSubpartition | None:
    """The largest hot subpartition of all inputs, whether or not it may be distributed; None if none is hot.

    Empty subpartitions do not count here: a few keys that leave most subpartitions empty are not hot for that.
    """
    found = []
    for name, sizes in bytes_by_input.items():
        held = [size for size in sizes if size]
        if not held:
            continue
        median, largest = compute_median(held), max(held)
        if largest > compute_hot_threshold(median, at_least=target_bytes):
            found.append(HotSubpartition(name, list(sizes).index(largest), largest, median))
    return max(found, key=lambda each: each.bytes, default=None)


def compute_median(sizes: Sequence[int]) -> int:
    """Median rounded down, at least 1."""
    check_sizes("sizes", sizes)
    if not sizes:
        raise InvalidValueError("median: expected at least one size, found none")
    ordered = sorted(sizes)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) // 2
    return max(median, 1)


def compute_hot_threshold(median: int, at_least: int) -> int:
    """Bytes above which a subpartition is hot: four times the median of all, and `at_least` in any case."""
    return int(max(median * HOT_FACTOR, at_least))


def compute_part_bytes(bytes_by_subpartition: Sequence[int], hot_threshold: int, target_bytes: int) -> int:
    """Bytes that a part of a hot subpartition should have: the average of the others, at least the target."""
    others = [size for size in bytes_by_subpartition if size <= hot_threshold]
    return max(target_bytes, sum(others) // len(others)) if others else target_bytes


def split_hot_subpartitions(inputs: RegionInputs, totals: Sequence[int], options: RegionOptions) -> list[HotPart]:
    """The parts of all hot subpartitions, in order; [] if none may be split, or none is worth it.

    `totals` are bytes by subpartition over all partitioned inputs.
    """
    is_given = options.parallelism is not None or options.single_subtask_reason is not None
    if not options.splittable or options.strategy != "balanced" or is_given:
        return []
    target_bytes = inputs.own_target(options)
    sides = [entry for entry in inputs.partitioned if entry.name in options.splittable]
    found: dict[int, list[HotPart]] = {}
    for side in sides:
        sizes = side.bytes_by_subpartition()
        threshold = compute_hot_threshold(compute_median(sizes), at_least=target_bytes)
        part_bytes = compute_part_bytes(sizes, threshold, target_bytes)
        for subpartition, size in enumerate(sizes):
            if size > threshold:
                parts = _split(side, subpartition, totals[subpartition] - size, part_bytes)
                if len(parts) > len(found.get(subpartition, [None])):
                    found[subpartition] = parts
    return _within(found, options.max_parallelism // _SHARE_OF_BOUND)


def _split(side: BlockingInput, subpartition: int, other_bytes: int, part_bytes: int) -> list[HotPart]:
    """Cut along the producers. The other side counts in every part, whose own rows may still be half of it."""
    sizes = [row[subpartition] for row in side.bytes_by_partition]
    own_bytes = max(part_bytes - other_bytes, part_bytes // 2, 1)
    ranges = cut_by_bytes(sizes, count_ranges_within(sizes, own_bytes))
    return [HotPart(subpartition, side.name, span, sum(sizes[span.start : span.stop]) + other_bytes) for span in ranges]


def _within(found: dict[int, list[HotPart]], most: int) -> list[HotPart]:
    """The largest ones first, as long as there is room; back in the order of their numbers."""
    chosen: list[Sequence[HotPart]] = []
    for parts in sorted(found.values(), key=lambda parts: sum(part.bytes for part in parts), reverse=True):
        if sum(map(len, chosen)) + len(parts) <= most:
            chosen.append(parts)
    return [part for parts in sorted(chosen, key=lambda parts: parts[0].subpartition) for part in parts]
