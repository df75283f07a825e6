"""Slow subtasks."""

from __future__ import annotations

import pytest

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.not_yet_used.slow_tasks import (
    Execution,
    ExecutionState,
    ExecutionTime,
    SlowTaskOptions,
    compare_execution_times,
    compute_baseline,
    find_slow_subtasks,
)


def execution(state: str, time_ms: int, input_bytes: int | None = None) -> Execution:
    return Execution(ExecutionState(state), ExecutionTime(time_ms, input_bytes))


def test_a_subtask_is_slow_beside_the_median_of_the_finished_ones() -> None:
    # 3 of 4 finished, index 3 div 2 = 1 -> 60 s x 1.5 = 90 s; equality counts.
    finished = [execution("FINISHED", seconds * 1000) for seconds in (70, 50, 60)]
    running = [*finished, execution("RUNNING", 90_000)]
    vertices = {"join": running, "map": [*finished, execution("RUNNING", 89_999)], "later": None}
    assert find_slow_subtasks(vertices, SlowTaskOptions()) == {"join": (3,)}


def test_more_input_may_take_more_time() -> None:
    options = SlowTaskOptions(0.5, 1.0, 0)
    executions = [execution("FINISHED", 10, 100), execution("RUNNING", 19, 200), execution("RUNNING", 19, 100)]
    assert compute_baseline(executions[:2], options) == ExecutionTime(10, 100)
    assert find_slow_subtasks({"v": [executions[0], *executions]}, options) == {"v": (3,)}


def test_who_has_not_started_or_is_being_stopped_is_not_slow() -> None:
    options = SlowTaskOptions(0, 1, 0)
    states = ("CREATED", "CANCELING", "CANCELED", "FAILED", "FINISHED", "SCHEDULED", "INITIALIZING")
    assert find_slow_subtasks({"v": [execution(state, 9) for state in states]}, options) == {"v": (5, 6)}


def test_too_few_finished_give_no_baseline() -> None:
    running = [execution("RUNNING", 10**9)]
    assert compute_baseline(running, SlowTaskOptions()) is None
    assert find_slow_subtasks({"v": running}, SlowTaskOptions()) == {}


@pytest.mark.parametrize(
    ("first", "second", "sign"),
    [
        ((0, 0), (1, 1), -1),  # no time is never slow
        ((1, 0), (9, 9), 1),  # time for nothing is infinitely slow
        ((1, 0), (2, 0), 0),
        ((0, None), (5, 7), -1),
        ((5, None), (0, 7), 1),
        ((5, None), (5, None), 0),
        ((10, 20), (10, 10), -1),
    ],
)
def test_times_are_compared_per_byte(first: tuple[int, int], second: tuple[int, int], sign: int) -> None:
    assert compare_execution_times(ExecutionTime(*first), ExecutionTime(*second)) == sign


def test_known_and_unknown_bytes_do_not_compare() -> None:
    with pytest.raises(InvalidValueError, match="expected input bytes of both executions or of neither"):
        compare_execution_times(ExecutionTime(1, 1), ExecutionTime(1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlowTaskOptions(1.0), "baseline_ratio: expected a number of at least 0 and below 1, found 1.0"),
        (lambda: SlowTaskOptions(0.5, -1), "baseline_multiplier: expected a number of at least 0, found -1"),
        (lambda: SlowTaskOptions(0.5, 1, -1), "baseline_lower_bound_ms: expected an integer of at least 0, found -1"),
        (lambda: ExecutionTime(-1), "time_ms: expected an integer of at least 0, found -1"),
        (lambda: ExecutionTime(1, -1), "input_bytes: expected an integer of at least 0, found -1"),
    ],
)
def test_wrong_values_are_named(make: object, message: str) -> None:
    with pytest.raises(InvalidValueError, match=message):
        make()  # type: ignore[operator]
