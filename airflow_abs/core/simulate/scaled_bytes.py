"""Recorded sizes as they would be on a larger or smaller day. A factor of 1 changes nothing; totals never fall as the
factor grows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from airflow_abs.core.checks import check_int, check_number
from airflow_abs.core.decide.hot_subpartitions import HOT_FACTOR, compute_median
from airflow_abs.core.decide.parallelism import divide_up


def scale_size(size: int, factor: float) -> int:
    """Bytes times the factor, rounded down."""
    check_number("factor", factor, at_least=0)
    return int(size * factor)


def grow_files(sizes: Sequence[int], factor: float, file_bytes: int | None = None) -> list[int]:
    """Files of a source: above a factor of 1 more files of the same sizes, below it the same number of smaller ones.

    With `file_bytes` they are written anew, in equal files of at most that size.
    """
    if file_bytes is not None:
        return _equal_files(scale_size(sum(sizes), factor), file_bytes)
    whole, rest = divmod(check_number("factor", factor, at_least=0), 1)
    partial = [scale_size(size, rest) for size in sizes] if rest else []
    return [*list(sizes) * int(whole), *partial]


def respread_files(rows: Sequence[Sequence[int]], producers: int) -> list[list[int]]:
    """Bytes by producer subtask and file, if there were another number of subtasks: each with as many files as one had
    on average (rounded up), all of the same size."""
    if producers == len(rows):
        return [list(row) for row in rows]
    each = max(1, divide_up(sum(map(len, rows)), len(rows)))
    sizes = _cut_equally(sum(map(sum, rows)), producers * each)
    return [sizes[k * each : (k + 1) * each] for k in range(producers)]


def _equal_files(total: int, file_bytes: int) -> list[int]:
    return _cut_equally(total, max(1, divide_up(total, check_int("file_bytes", file_bytes, at_least=1))))


def _cut_equally(total: int, count: int) -> list[int]:
    return [stop - start for start, stop in pairwise(total * k // count for k in range(count + 1))]


def regrid(sizes: Sequence[int], count: int) -> list[int]:
    """Bytes per subpartition, as if there were `count` subpartitions; the sum is the same.

    What a subpartition holds is spread evenly over the finer ones that take its place. A hot one counts as
    one key: what it has above the median stays together.
    """
    check_int("subpartitions", count, at_least=1)
    if count == len(sizes) or not sizes:
        return list(sizes)
    median = compute_median(sizes)
    hot = {k: size - median for k, size in enumerate(sizes) if size > median * HOT_FACTOR}
    spread = _resample([median if k in hot else size for k, size in enumerate(sizes)], count)
    for position, excess in hot.items():
        spread[position * count // len(sizes)] += excess
    return spread


def _resample(sizes: Sequence[int], count: int) -> list[int]:
    """Cut the cumulated sizes at `count` equal steps; exact in integers."""
    sums = [0]
    for size in sizes:
        sums.append(sums[-1] + size)
    cuts = []
    for step in range(count + 1):
        whole, part = divmod(step * len(sizes), count)
        cuts.append(sums[whole] + (sizes[whole] * part // count if part else 0))
    return [stop - start for start, stop in pairwise(cuts)]


def spread_over_producers(totals: Sequence[int], producers: int) -> list[list[int]]:
    """Bytes by producer subtask and subpartition, if each writes an equal share of every subpartition."""
    return [[total * (k + 1) // producers - total * k // producers for total in totals] for k in range(producers)]
