"""Rectangles of a result: some partitions times some subpartitions. A subtask reads a few of them of each input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from airflow_abs.core.ranges import IndexRange


class DistributionPattern(StrEnum):
    """Which subtasks of a producer a subtask of the consumer may read from."""

    ALL_TO_ALL = "all_to_all"
    POINTWISE = "pointwise"


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """These subpartitions of each of these partitions."""

    partitions: IndexRange
    subpartitions: IndexRange

    def bytes_in(self, bytes_by_partition: Sequence[Sequence[int]]) -> int:
        """Bytes of the block, given bytes by partition and subpartition."""
        columns = slice(self.subpartitions.start, self.subpartitions.stop)
        return sum(sum(bytes_by_partition[partition][columns]) for partition in self.partitions)


def merge_ranges(ranges: Iterable[IndexRange]) -> list[IndexRange]:
    """Join ranges that overlap or touch; the result is ascending."""
    merged: list[IndexRange] = []
    for span in sorted(ranges):
        if merged and span.start <= merged[-1].stop:
            merged[-1] = IndexRange(merged[-1].start, max(merged[-1].stop, span.stop))
        else:
            merged.append(span)
    return merged


def merge_blocks(blocks: Iterable[Block], pattern: DistributionPattern) -> tuple[Block, ...]:
    """Cover the same cells with fewer blocks, in ascending order.

    All-to-all: partitions are joined within each subpartition, then subpartitions with the same partitions. Pointwise:
    the other way round.
    """
    if pattern is DistributionPattern.POINTWISE:
        turned = _merge((block.partitions, block.subpartitions) for block in blocks)
        return tuple(sorted(Block(partitions, subpartitions) for partitions, subpartitions in turned))
    straight = _merge((block.subpartitions, block.partitions) for block in blocks)
    return tuple(sorted(Block(partitions, subpartitions) for subpartitions, partitions in straight))


def _merge(pairs: Iterable[tuple[IndexRange, IndexRange]]) -> list[tuple[IndexRange, IndexRange]]:
    """Join seconds of equal firsts, then firsts of equal seconds."""
    seconds: dict[IndexRange, list[IndexRange]] = {}
    for first, second in pairs:
        seconds.setdefault(first, []).append(second)
    firsts: dict[IndexRange, list[IndexRange]] = {}
    for first, found in seconds.items():
        for second in merge_ranges(found):
            firsts.setdefault(second, []).append(first)
    return [(first, second) for second, found in firsts.items() for first in merge_ranges(found)]
