"""Parallelism of vertices that read from outside, and who reads which split.

Order of precedence: set by the user, then inferred on the day, then configured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Any

from airflow_abs.core.checks import check_int, check_sizes
from airflow_abs.core.decide.decision import Decision
from airflow_abs.core.decide.parallelism import divide_up


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What a source is told when it is asked for its parallelism.

    `upper_bound` is a hint: a larger answer is capped by the maximum of the vertex only. `dynamic_filtering` is
    whatever upstream results say about the splits that matter; None if nothing does.
    """

    upper_bound: int
    bytes_per_subtask: int
    dynamic_filtering: Any = None

    def __post_init__(self) -> None:
        check_int("upper_bound", self.upper_bound, at_least=1)
        check_int("bytes_per_subtask", self.bytes_per_subtask, at_least=1)


def default_source_parallelism(configured: int | None) -> int:
    """Flink 1.15: as configured, else 1."""
    return resolve_default_source_parallelism(configured, 1)


def resolve_default_source_parallelism(configured: int | None, max_parallelism: int) -> int:
    """Configured default, else the job's max parallelism."""
    return max_parallelism if configured is None else check_int("default_source_parallelism", configured, at_least=1)


def source_upper_bound(default_source_parallelism: int | None, max_parallelism: int, vertex_max: int) -> int:
    """Upper bound handed to a source: the default source parallelism may exceed the job's maximum, not the vertex's."""
    return min(resolve_default_source_parallelism(default_source_parallelism, max_parallelism), vertex_max)


def infer_parallelism(split_bytes: Sequence[int], context: SourceContext) -> int:
    """Answer of a source that knows its splits: bytes over the target, at least 1, at most one subtask per split."""
    check_sizes("split_bytes", split_bytes)
    wanted = divide_up(sum(split_bytes), context.bytes_per_subtask)
    return max(1, min(wanted, context.upper_bound, len(split_bytes)))


def merge_inferred(answers: Iterable[int], vertex_max: int) -> int | None:
    """Answer of all sources of one vertex: the largest, capped by the vertex; None if none has a positive one."""
    largest = max(answers, default=-1)
    return min(largest, vertex_max) if largest > 0 else None


@dataclass(frozen=True, slots=True)
class SourceDecision(Decision):
    """Parallelism of a vertex that reads from outside only."""

    parallelism: int
    inferred: int | None
    upper_bound: int


def decide_source_parallelism(set_by_user: int | None, inferred: int | None, upper_bound: int) -> SourceDecision:
    """Parallelism of a vertex without other inputs: set by the user, else inferred, else the upper bound."""
    if set_by_user is not None:
        check_int("parallelism", set_by_user, at_least=1)
        return SourceDecision("fixed", f"parallelism {set_by_user} set by the user", set_by_user, inferred, upper_bound)
    if inferred is not None:
        return SourceDecision("inferred", f"its sources ask for {inferred}", inferred, inferred, upper_bound)
    return SourceDecision("configured", "its sources ask for nothing", upper_bound, inferred, upper_bound)


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
