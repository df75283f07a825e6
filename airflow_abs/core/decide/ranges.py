"""Half-open index ranges, and the ways to cut 0..n-1 into consecutive ones.

All cuts cover every index exactly once, in order. Sizes are bytes, one per index.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from airflow_abs.core.checks import check_int, check_sizes
from airflow_abs.core.errors import InvalidValueError


@dataclass(frozen=True, slots=True, order=True)
class IndexRange:
    """The indexes start, start + 1, ..., stop - 1; never empty."""

    start: int
    stop: int

    def __post_init__(self) -> None:
        check_int("IndexRange.start", self.start, at_least=0)
        check_int("IndexRange.stop", self.stop, at_least=self.start + 1, at_most=sys.maxsize)

    def __len__(self) -> int:
        return self.stop - self.start

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.start, self.stop))

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and self.start <= index < self.stop

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"


def split_by_count(length: int, count: int) -> list[IndexRange]:
    """Cut 0..length-1 into `count` ranges whose lengths differ by at most one.

    Raises:
        InvalidValueError: `count` is not within 1..length.
    """
    check_int("count", count, at_least=1, at_most=length)
    return [IndexRange(k * length // count, (k + 1) * length // count) for k in range(count)]


class BytePacker:
    """Cuts one sequence of sizes again and again: each answer costs ranges x log(sizes), not a walk over all sizes."""

    def __init__(self, sizes: Sequence[int]) -> None:
        check_sizes("sizes", sizes)
        self._total_before = [0, *accumulate(sizes)]

    def __len__(self) -> int:
        return len(self._total_before) - 1

    @property
    def total(self) -> int:
        """Bytes of all sizes together."""
        return self._total_before[-1]

    def count(self, limit: int) -> int:
        """Fewest ranges within the limit: each grows while it stays within, a size above it stands alone.

        The number never grows with the limit.
        """
        return sum(1 for _ in self._stops(limit))

    def cut(self, count: int) -> list[IndexRange]:
        """Cut into exactly `count` ranges whose largest is as small as whole indexes allow, the others about equal.

        Only a single index may exceed the smallest limit that so few ranges can keep.

        Raises:
            InvalidValueError: `count` is not within 1..number of sizes.
        """
        check_int("count", count, at_least=1, at_most=len(self))
        limit = bisect_left(range(self.total), True, key=lambda limit: self.count(limit) <= count)
        earliest = self._earliest_starts(count, limit)
        cuts = [0]
        for left in range(count - 1, 0, -1):  # ranges still to come after this one
            lowest = max(cuts[-1] + 1, earliest[left])
            highest = min(self._furthest_stop(cuts[-1], limit), len(self) - left)
            cuts.append(self._nearest_to_equal_share(cuts[-1], left + 1, lowest, highest))
        return [IndexRange(start, stop) for start, stop in pairwise([*cuts, len(self)])]

    def _earliest_starts(self, ranges: int, limit: int) -> list[int]:
        """Entry k: the first index from which on k ranges within the limit are enough."""
        earliest = [len(self)]
        for _ in range(ranges):
            start = bisect_left(self._total_before, self._total_before[earliest[-1]] - limit)
            earliest.append(max(0, min(start, earliest[-1] - 1)))
        return earliest

    def _furthest_stop(self, start: int, limit: int) -> int:
        """Where a range from `start` must end to stay within the limit; it has at least one index."""
        return max(start + 1, bisect_right(self._total_before, self._total_before[start] + limit) - 1)

    def _nearest_to_equal_share(self, start: int, ranges: int, lowest: int, highest: int) -> int:
        """The cut within lowest..highest that comes closest to giving each of the `ranges` from `start` on the same."""
        share = self._total_before[start] + (self.total - self._total_before[start]) // ranges
        above = bisect_left(self._total_before, share, lowest, highest)
        below = max(above - 1, lowest)
        return min(below, above, key=lambda cut: abs(self._total_before[cut] - share))

    def _stops(self, limit: int) -> Iterator[int]:
        start = 0
        while start < len(self):
            start = self._furthest_stop(start, limit)
            yield start


def count_ranges_within(bytes_by_subpartition: Sequence[int], target_bytes: int) -> int:
    """Fewest consecutive ranges, none above `target_bytes` unless a single subpartition is.

    Subpartitions without bytes cost nothing and need no range: all empty gives 0.
    """
    check_int("target_bytes", target_bytes, at_least=1)
    return BytePacker([size for size in bytes_by_subpartition if size]).count(target_bytes)


def cut_by_bytes(bytes_by_subpartition: Sequence[int], count: int) -> list[IndexRange]:
    """Cut the subpartitions into exactly `count` consecutive ranges of about equal bytes.

    No range is empty of bytes as long as there are `count` subpartitions that are not. This goes beyond Flink, which
    keeps the first greedy cut (its last range may be tiny) and gives empty subpartitions beside a large one ranges of
    their own.

    Raises:
        InvalidValueError: a negative size, or `count` is not within 1..number of subpartitions.
    """
    filled = [index for index, size in enumerate(bytes_by_subpartition) if size]
    if not filled:
        return split_by_count(len(bytes_by_subpartition), count)
    if count > len(filled):
        return BytePacker(bytes_by_subpartition).cut(count)
    ranges = BytePacker([bytes_by_subpartition[index] for index in filled]).cut(count)
    # Each range reaches up to the first filled subpartition of the next; the outermost reach the ends.
    starts = [0, *(filled[span.start] for span in ranges[1:]), len(bytes_by_subpartition)]
    return [IndexRange(start, stop) for start, stop in pairwise(starts)]


def check_same_length(what: str, lengths: dict[str, int]) -> int:
    """Return the one length that all named things share (0 if there is none)."""
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InvalidValueError(f"{what}: expected the same number for all, found {found}")
    return next(iter(lengths.values()), 0)
