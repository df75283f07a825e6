"""Timers as values."""

from __future__ import annotations

from airflow_abs.core.streaming.timers import StartTimer, Timer, TimerQueue


def test_timers_come_when_they_are_due_in_the_order_asked_for() -> None:
    queue = TimerQueue()
    first, second, later = Timer("first", 1), Timer("second", 1), Timer("later", 1)
    for timer, at in ((later, 9), (first, 5), (second, 5)):
        queue.add(StartTimer(timer, at))
    assert queue.pop_due(4) is None
    assert [queue.pop_due(5), queue.pop_due(5), queue.pop_due(5)] == [first, second, None]
    assert queue.pop_due(100) == later
    assert queue.pop_due(100) is None


def test_an_empty_queue_has_no_next_timer() -> None:
    assert TimerQueue().next_at is None
