"""OpenTelemetry spans of streams, children of Airflow's span of the trigger; docs/streams.md lists them.

A stream may live for months, so nothing waits for its end: a span is made of each batch, and of each state when it is
left, with the times at which they began and ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_abs.core.settings import SECTION
from airflow_abs.execution import spans

if TYPE_CHECKING:
    from airflow_abs.core.stream_life.life import Batch, StreamLife
    from airflow_abs.spark.stream.watch import StreamEvent

PREFIX = f"{SECTION}.stream"


class StreamSpans:
    """Of one stream, from the process that supervises it."""

    def __init__(self, dag_id: str, run_id: str, task_id: str) -> None:
        self._place = {"airflow.dag_id": dag_id, "airflow.dag_run.run_id": run_id, "airflow.task_id": task_id}

    def emit(self, event: StreamEvent, life: StreamLife) -> None:
        """Batches and states, once they are over; not a state in which its process died."""
        from airflow_abs.core.stream_life.life import Batch, StateChange

        match event:
            case Batch():
                self._end("batch", event.ended - event.seconds, event.ended, _describe(event))
            case StateChange() if len(life.changes) > 1 and life.changes[-2].entered == event.left:
                told = {"state": str(event.left), "next": str(event.entered), "reason": life.changes[-1].reason}
                self._end("state", life.changes[-2].at, event.at, told)

    def _end(self, what: str, began: float, ended: float, told: dict[str, Any]) -> None:
        attributes = {f"{PREFIX}.{name}": value for name, value in told.items() if value is not None}
        span = spans.tracer().start_span(
            f"{PREFIX}.{what}", start_time=round(began * 1e9), attributes=self._place | attributes
        )
        span.end(round(ended * 1e9))


def _describe(batch: Batch) -> dict[str, Any]:
    return {
        "batch": batch.number,
        "rows_in": batch.rows_in,
        "rows_out": batch.rows_out,
        "lag": batch.lag,
        "rows_behind": batch.rows_behind,
        "state_rows": batch.state_rows,
        "state_bytes": batch.state_bytes,
    }
