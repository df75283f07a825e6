"""When all slots were taken."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from airflow_abs.core.timeline.critical_path import Kind, Phase
from airflow_abs.core.timeline.slot_waits import WAITING, Interval, find_full, split_wait


def test_slots_are_full_while_as_many_operations_run() -> None:
    assert find_full([(0, 4), (1, 3), (3, 5)], 2) == ((1, 4),)
    assert find_full([(0, 4), (1, 2), (3, 4)], 2) == ((1, 2), (3, 4))
    assert find_full([(0, 4)], 2) == ()


def test_a_wait_is_for_a_slot_only_while_all_are_taken() -> None:
    parts = list(split_wait(0.0, 10.0, ((1.0, 2.0), (4.0, 12.0)), Kind.TASK, "worker"))
    assert parts == [
        Phase(Kind.TASK, "worker", 0.0, 1.0),
        Phase(Kind.SLOTS, WAITING, 1.0, 2.0),
        Phase(Kind.TASK, "worker", 2.0, 4.0),
        Phase(Kind.SLOTS, WAITING, 4.0, 10.0),
    ]
    assert list(split_wait(5.0, 5.0, ((1.0, 9.0),), Kind.TASK, "worker")) == []


intervals = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(intervals, st.integers(1, 4), st.integers(0, 30), st.integers(0, 12))
def test_every_instant_is_told_as_it_was(operations: list[Interval], slots: int, start: int, length: int) -> None:
    full = find_full(operations, slots)
    parts = list(split_wait(start, start + length, full, Kind.TASK, "worker"))
    assert sum(part.seconds for part in parts) == length
    for instant in range(start, start + length):
        running = sum(low <= instant < high for low, high in operations)
        (part,) = [each for each in parts if each.start <= instant < each.end]
        assert (part.kind is Kind.SLOTS) == (running >= slots)
