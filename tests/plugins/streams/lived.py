"""A made-up day of a stream: a restart, a rescale, and an hour in which files come faster than they are read."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow_abs.core.stream_life.life import Batch, Note, StateChange, StreamLife

BEGAN = datetime(2026, 1, 4, 1, 0, tzinfo=UTC).timestamp()
NOW = BEGAN + 4 * 3600
OWNER = "clicks/run/by_minute"

_CHANGES = [
    (0, "Created", "WaitingForResources", "started"),
    (40, "WaitingForResources", "CreatingExecutionGraph", "sufficient resources were stable for 10 s"),
    (43, "CreatingExecutionGraph", "Executing", "slots are assigned"),
    (4000, "Executing", "Restarting", "failed in batch 120: Job aborted due to stage failure: ExecutorLostFailure"),
    (4010, "Restarting", "WaitingForResources", "the backoff has passed"),
    (4130, "WaitingForResources", "CreatingExecutionGraph", "desired resources are there"),
    (4134, "CreatingExecutionGraph", "Executing", "slots are assigned"),
    (9000, "Executing", "Restarting", "desired resources are there"),
    (9012, "Restarting", "CreatingExecutionGraph", "restart with the available resources"),
    (9015, "CreatingExecutionGraph", "Executing", "slots are assigned"),
]


def lived() -> StreamLife:
    """Its 80 last batches end at `NOW`; the lag of the last 30 grows, and that is told."""
    life = StreamLife(OWNER, "by_minute 1")
    for after, left, entered, reason in _CHANGES:
        life = life.with_change(StateChange(BEGAN + after, left, entered, reason))
    alarm = life.lag_alarm()
    for number in range(80):
        seconds = 20 + number % 5
        lag = 25.0 + number % 3 + max(0, number - 50) * 20
        rows = 40_000 + 3000 * (number % 7)
        ended = NOW - 30 * (80 - number)
        state = 5000 + 40 * number
        life = life.with_batch(Batch(200 + number, ended, seconds, rows, rows // 12, state, 1800 * state, lag))
        if (told := alarm.see(lag, seconds)) is not None:
            life = life.with_alarm(told, ended)
    return life.with_note(Note(NOW - 60, "ann@etl-1 has asked it to drain"))
