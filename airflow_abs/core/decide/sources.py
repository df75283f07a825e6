"""Who reads which split of a source: a split, a file as a rule, is never cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace


def assign_splits(splits: Mapping[str, Sequence[int]], loads: Sequence[int]) -> list[dict[str, tuple[int, ...]]]:
    """Deal out splits so that subtasks end with about equal bytes: largest first, each to the least loaded subtask.

    Args:
        splits: bytes per split, by source name. A split is never cut.
        loads: bytes that each subtask reads already; its length is the number of subtasks.

    Returns:
        For each subtask the indices of its splits by source, ascending. Equal loads go to the lowest subtask, so the
        same input gives the same answer.
    """
    assigned: list[dict[str, list[int]]] = [{name: [] for name in splits} for _ in loads]
    least = [(load, subtask) for subtask, load in enumerate(loads)]
    heapify(least)
    largest_first = sorted(
        (
            (-size, order, index, name)
            for order, (name, sizes) in enumerate(splits.items())
            for index, size in enumerate(sizes)
        )
    )
    for negative_size, _, index, name in largest_first:
        load, subtask = least[0]
        assigned[subtask][name].append(index)
        heapreplace(least, (load - negative_size, subtask))
    return [{name: tuple(sorted(indices)) for name, indices in by_source.items()} for by_source in assigned]
