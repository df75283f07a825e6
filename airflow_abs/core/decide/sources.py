"""Who reads which split of a source: a split, a file as a rule, is never cut. And how large it is if none says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heapreplace

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_inputs import SizeFrom
from airflow_abs.core.durability.strange_day import UsualBytes
from airflow_abs.core.wording import format_bytes


def size_splits(told: Sequence[int], usual: UsualBytes | None) -> tuple[list[int], SizeFrom, str]:
    """How large each split is taken to be: as its source says; else an equal share of what the source held on earlier
    days; else all alike, and the number of subtasks is the default's.

    Args:
        told: bytes of each split; all 0 if the source does not know them.
        usual: of the source on earlier days.

    Returns:
        Bytes of each split, who said so, and in words what is taken ("" for what the source says).
    """
    if not told or any(told):
        return list(told), "source", ""
    if usual is None or not usual.median:
        return [1] * len(told), "default", "too few earlier days are known: the source maximum"
    share = divide_up(usual.median, len(told))
    days = f"{usual.days} earlier {usual.weekday or 'day'}s"
    return [share] * len(told), "history", f"{format_bytes(usual.median)} is the median of {days}"


def inferred_number(told: int) -> int | None:
    """The number of subtasks that a source has inferred; 0 or less leaves it to its bytes, as in Flink."""
    return told if told > 0 else None


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
