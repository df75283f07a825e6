"""Metrics of streams, through Airflow's own stats; docs/streams.md lists them.

All names start with ``adaptive_spark.stream.``; all have the tags ``dag_id`` and ``task_id``.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_abs.execution.metrics import PREFIX as OF_ALL

if TYPE_CHECKING:
    from airflow_abs.core.stream_life.life import Batch, StreamLife
    from airflow_abs.spark.stream.watch import StreamEvent

PREFIX = f"{OF_ALL}.stream"


class StreamMetrics:
    """Of one stream, from the process that supervises it."""

    def __init__(self, dag_id: str, task_id: str) -> None:
        self._tags: dict[str, Any] = {"dag_id": dag_id, "task_id": task_id}

    def emit(self, event: StreamEvent, life: StreamLife) -> None:
        """What is new, as soon as it is known."""
        from airflow_abs.core.stream_life.life import Batch, StateChange

        configure_stats()
        match event:
            case Batch():
                self._emit_batch(event)
            case StateChange():
                self._count("restarts", int(event.is_restart))
                self._count("rescales", int(event.is_rescale))
            case _:
                self._gauge("lag_alarm", int(bool(life.alarm)))

    def _emit_batch(self, batch: Batch) -> None:
        from airflow_abs.airflow_abilities import stats

        stats().timing(f"{PREFIX}.batch.seconds", batch.seconds * 1000, tags=self._tags)
        self._count("rows_in", batch.rows_in)
        self._gauge("rows_in_per_second", batch.rows_in_per_second)
        if batch.rows_out is not None:
            self._count("rows_out", batch.rows_out)
            self._gauge("rows_out_per_second", batch.rows_out_per_second or 0.0)
        if batch.lag is not None:
            self._gauge("lag", batch.lag)
        if batch.rows_behind is not None:
            self._gauge("rows_behind", batch.rows_behind)
        self._gauge("state.rows", batch.state_rows)
        self._gauge("state.bytes", batch.state_bytes)

    def _count(self, name: str, count: int) -> None:
        from airflow_abs.airflow_abilities import stats

        if count:
            stats().incr(f"{PREFIX}.{name}", count, tags=self._tags)

    def _gauge(self, name: str, value: float) -> None:
        from airflow_abs.airflow_abilities import stats

        stats().gauge(f"{PREFIX}.{name}", round(value, 3), tags=self._tags)


@cache
def configure_stats() -> None:
    """Once in a process: Airflow does it for tasks, but not for the process in which triggers run."""
    from airflow_abs.airflow_abilities import initialize_stats

    initialize_stats()
