"""One input laid out as a sequence of pieces that are not cut: what a range of the sequence means in the result.

No object is made per piece: a result of a million cells is a million numbers here, no more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import Protocol

from airflow_abs.core.blocks import Block, DistributionPattern
from airflow_abs.core.ranges import IndexRange


class Layout(Protocol):
    """Sizes of the pieces in order, and the blocks that a range of them covers."""

    @property
    def sizes(self) -> Sequence[int]:
        """Bytes by piece."""

    def blocks_of(self, span: IndexRange) -> list[Block]:
        """Blocks that hold exactly these pieces; not merged as far as they could be."""


class WholeSubpartitions:
    """A piece is one subpartition of all partitions: rows of one key stay together. All partitions are equally long."""

    def __init__(self, bytes_by_partition: Sequence[Sequence[int]]) -> None:
        self.sizes = list(map(sum, zip(*bytes_by_partition, strict=True)))
        self._partitions = IndexRange(0, len(bytes_by_partition))

    def blocks_of(self, span: IndexRange) -> list[Block]:
        """A single block."""
        return [Block(self._partitions, span)]


class WholePartitions:
    """A piece is one partition with all its subpartitions."""

    def __init__(self, bytes_by_partition: Sequence[Sequence[int]]) -> None:
        self.sizes = list(map(sum, bytes_by_partition))
        self._lengths = list(map(len, bytes_by_partition))

    def blocks_of(self, span: IndexRange) -> list[Block]:
        """A block per partition."""
        return [Block(IndexRange(i, i + 1), IndexRange(0, self._lengths[i])) for i in span]


class Cells:
    """A piece is one subpartition of one partition; all those of partition 0 come first, then those of partition 1."""

    def __init__(self, bytes_by_partition: Sequence[Sequence[int]], pattern: DistributionPattern) -> None:
        self.sizes = list(chain.from_iterable(bytes_by_partition))
        self._starts = [0, *accumulate(map(len, bytes_by_partition))]
        self._pattern = pattern

    def blocks_of(self, span: IndexRange) -> list[Block]:
        """Rows of the first, the middle and the last partition; cut into columns if the edge is all-to-all."""
        first, last = (bisect_right(self._starts, place) - 1 for place in (span.start, span.stop - 1))
        if self._pattern is DistributionPattern.POINTWISE:
            return [self._row(partition, span) for partition in range(first, last + 1)]
        return self._columns(self._row(first, span), self._row(last, span), self._starts[1])

    def _row(self, partition: int, span: IndexRange) -> Block:
        begin, end = self._starts[partition], self._starts[partition + 1]
        subpartitions = IndexRange(max(span.start, begin) - begin, min(span.stop, end) - begin)
        return Block(IndexRange(partition, partition + 1), subpartitions)

    @staticmethod
    def _columns(first: Block, last: Block, width: int) -> list[Block]:
        """Same cells, cut where the first row begins and the last one ends: a column then has one partition range."""
        blocks = []
        for start, stop in pairwise(sorted({0, first.subpartitions.start, last.subpartitions.stop, width})):
            top = first.partitions.start if start >= first.subpartitions.start else first.partitions.stop
            bottom = last.partitions.stop if start < last.subpartitions.stop else last.partitions.start
            if top < bottom:
                blocks.append(Block(IndexRange(top, bottom), IndexRange(start, stop)))
        return blocks
