"""Cutting a sequence of slices into one range per subtask, by bytes.

A slice is the smallest piece that is not cut: a subpartition over all partitions, one cell, or a part of a skewed
subpartition. Several inputs that must be cut alike form columns of equal length; position i carries one slice of each.
When a skewed subpartition of one input is split, the other input's slice is repeated at several positions: a subtask
that gets it twice reads it once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from airflow_abs.core.bisection import find_largest_legal, find_smallest_legal
from airflow_abs.core.blocks import Block
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.parallelism import Bounds
from airflow_abs.core.ranges import BytePacker, IndexRange, split_by_count


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A block with its bytes. Two slices are the same only if they are the same object."""

    block: Block
    bytes: int


class Packer(Protocol):
    """Cuts positions greedily within a limit of bytes."""

    def pack(self, limit: int) -> list[IndexRange]:
        """Ranges of at most `limit` bytes, as long as one position does not exceed it alone."""

    def count(self, limit: int) -> int:
        """Number of ranges that `pack(limit)` gives."""


@dataclass(frozen=True, slots=True)
class RepeatedSlicePacker:
    """Greedy packing in which a slice that the open range holds already costs nothing."""

    columns: Sequence[Sequence[Slice]]

    def pack(self, limit: int) -> list[IndexRange]:
        """Cut greedily; a range that opens pays for its first position in full."""
        ranges: list[IndexRange] = []
        start, size, held = 0, 0, set[tuple[int, Slice]]()
        for position, slices in enumerate(zip(*self.columns, strict=True)):
            keyed = list(enumerate(slices))
            added = sum(piece.bytes for column, piece in keyed if (column, piece) not in held)
            if position > start and size + added > limit:
                ranges.append(IndexRange(start, position))
                start, size, held = position, 0, set()
                added = sum(piece.bytes for piece in slices)
            size += added
            held.update(keyed)
        return [*ranges, IndexRange(start, len(self.columns[0]))]

    def count(self, limit: int) -> int:
        """Number of ranges that `pack(limit)` gives."""
        return len(self.pack(limit))


def cut_slices(columns: Sequence[Sequence[Slice]], bounds: Bounds, volume: int) -> list[IndexRange] | None:
    """Cut the positions of several columns as `cut_sizes` does; a slice held twice by a range counts once.

    Returns:
        None if there are fewer positions than `bounds.lower`.
    """
    positions = len(columns[0])
    if any(len(column) != positions for column in columns):
        raise InvalidValueError(f"expected columns of {positions} slices, found {[len(column) for column in columns]}")
    sizes = [sum(piece.bytes for piece in slices) for slices in zip(*columns, strict=True)]
    repeated = any(len(set(column)) < positions for column in columns)
    return cut_sizes(sizes, bounds, volume, RepeatedSlicePacker(columns) if repeated else None)


def cut_sizes(
    sizes: Sequence[int], bounds: Bounds, volume: int, packer: Packer | None = None
) -> list[IndexRange] | None:
    """Cut into a number of ranges within the bounds.

    First by bytes with `volume` as the limit; if that gives too few or too many ranges, with the closest limit that
    gives a legal number; if there is none, into ranges of equally many sizes.

    Returns:
        None if there are fewer sizes than `bounds.lower`.
    """
    packer = packer or BytePacker(sizes)
    ranges = pack_within_bounds(packer, bounds, volume, smallest=min(sizes), total=sum(sizes))
    if ranges is None and len(sizes) >= bounds.lower:
        return split_by_count(len(sizes), min(len(sizes), bounds.upper))
    return ranges


def pack_within_bounds(
    packer: Packer, bounds: Bounds, volume: int, *, smallest: int, total: int
) -> list[IndexRange] | None:
    """Pack with `volume` as the limit, or with the limit closest to it that gives a legal number of ranges.

    Too few ranges: the largest limit that gives enough, then the smallest that gives just as many (the most even one).
    Too many: the smallest limit that gives few enough. The searches assume that the number falls as the limit grows;
    where it jumps over the bounds the answer is None.
    """
    limit, found = volume, packer.count(volume)
    if found < bounds.lower:
        low = min(volume, smallest)
        largest = find_largest_legal(low, volume, lambda value: packer.count(value) >= bounds.lower)
        closest = packer.count(largest)
        limit = find_smallest_legal(low, largest, lambda value: packer.count(value) == closest)
    elif found > bounds.upper:
        limit = find_smallest_legal(volume, total, lambda value: packer.count(value) <= bounds.upper)
    return packer.pack(limit) if bounds.lower <= packer.count(limit) <= bounds.upper else None


def share_of_volume(part_bytes: int, all_bytes: int, volume: int) -> int:
    """Part of the volume per subtask that falls to some of the inputs; 0 if there are no bytes at all."""
    return math.trunc(float(part_bytes) / all_bytes * volume) if all_bytes else 0
