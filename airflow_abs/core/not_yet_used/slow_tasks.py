"""Subtasks so slow, compared with their finished siblings, that a second attempt beside them is worthwhile."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cmp_to_key

from airflow_abs.core.checks import check_int, check_number
from airflow_abs.core.errors import InvalidValueError

_SMALLEST_FLOAT = sys.float_info.min * sys.float_info.epsilon


class ExecutionState(StrEnum):
    """State of one attempt of a subtask."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    DEPLOYING = "DEPLOYING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def can_be_slow(self) -> bool:
        """It is under way and nobody stops it."""
        return self in (
            ExecutionState.SCHEDULED,
            ExecutionState.DEPLOYING,
            ExecutionState.INITIALIZING,
            ExecutionState.RUNNING,
        )


@dataclass(frozen=True, slots=True)
class ExecutionTime:
    """Milliseconds since deployment (0 if never deployed), and the bytes read for it, None if unknown."""

    time_ms: int
    input_bytes: int | None = None

    def __post_init__(self) -> None:
        check_int("time_ms", self.time_ms, at_least=0)
        if self.input_bytes is not None:
            check_int("input_bytes", self.input_bytes, at_least=0)


@dataclass(frozen=True, slots=True)
class Execution:
    """One attempt of one subtask."""

    state: ExecutionState
    time: ExecutionTime


@dataclass(frozen=True, slots=True)
class SlowTaskOptions:
    """When to compare, and with what.

    Args:
        baseline_ratio: share of a vertex's subtasks that must have finished; at least 0, below 1.
        baseline_multiplier: how many times the median of those is slow.
        baseline_lower_bound_ms: nothing faster is slow.
    """

    baseline_ratio: float = 0.75
    baseline_multiplier: float = 1.5
    baseline_lower_bound_ms: int = 60_000

    def __post_init__(self) -> None:
        check_number("baseline_ratio", self.baseline_ratio, at_least=0, below=1)
        check_number("baseline_multiplier", self.baseline_multiplier, at_least=0)
        check_int("baseline_lower_bound_ms", self.baseline_lower_bound_ms, at_least=0)


def compare_execution_times(first: ExecutionTime, second: ExecutionTime) -> int:
    """-1, 0 or 1: by milliseconds per byte if the bytes of both are known, by milliseconds if those of neither are.

    Milliseconds for 0 bytes are infinitely slow, no milliseconds never are.

    Raises:
        InvalidValueError: bytes of only one are known and neither took 0 ms.
    """
    unknown = (first.input_bytes is None, second.input_bytes is None)
    if any(unknown) and not all(unknown) and first.time_ms and second.time_ms:
        raise InvalidValueError(f"expected input bytes of both executions or of neither, found {first} and {second}")
    one, other = (
        (float(first.time_ms), float(second.time_ms))
        if any(unknown)
        else (_time_per_byte(first), _time_per_byte(second))
    )
    return (one > other) - (one < other)


def find_slow_subtasks(
    vertices: Mapping[str, Sequence[Execution] | None], options: SlowTaskOptions
) -> dict[str, tuple[int, ...]]:
    """Indices of the slow subtasks by vertex; vertices without any are left out.

    Args:
        vertices: executions by subtask; None for a vertex that is not decided yet.
        options: when to compare, and with what.
    """
    slow = {vertex: _find_slow(executions, options) for vertex, executions in vertices.items() if executions}
    return {vertex: found for vertex, found in slow.items() if found}


def compute_baseline(executions: Sequence[Execution], options: SlowTaskOptions) -> ExecutionTime | None:
    """What an execution of this vertex is compared with; None as long as too few have finished."""
    finished = [entry.time for entry in executions if entry.state is ExecutionState.FINISHED]
    if len(finished) / len(executions) < options.baseline_ratio:
        return None
    counted = int(len(executions) * options.baseline_ratio + 0.5)
    if not counted:
        return ExecutionTime(0)
    median = sorted(finished, key=cmp_to_key(compare_execution_times))[:counted][counted // 2]
    return ExecutionTime(int(median.time_ms * options.baseline_multiplier), median.input_bytes)


def _find_slow(executions: Sequence[Execution], options: SlowTaskOptions) -> tuple[int, ...]:
    baseline = compute_baseline(executions, options)
    if baseline is None:
        return ()
    return tuple(
        index
        for index, execution in enumerate(executions)
        if execution.state.can_be_slow
        and execution.time.time_ms >= options.baseline_lower_bound_ms
        and compare_execution_times(execution.time, baseline) >= 0
    )


def _time_per_byte(execution: ExecutionTime) -> float:
    return execution.time_ms / max(execution.input_bytes or 0, _SMALLEST_FLOAT)
