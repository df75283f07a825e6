"""OpenTelemetry spans, through the tracer that Airflow configures (`[traces] otel_on`); without one they are nothing.

In a worker they are children of Airflow's span of the task, in the triggerer of that of the trigger. Names and
attributes are in docs/seeing-a-run.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.settings import SECTION as PREFIX
from airflow_abs.exchange.paths import JobFolder

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from airflow_abs.exchange.records.manifest import Manifest


class SubtaskTry(Protocol):
    """What a span says of one try of a subtask; `execution/subtask.py` has one."""

    @property
    def dag_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def job(self) -> str: ...

    @property
    def region(self) -> str: ...

    @property
    def attempt(self) -> int: ...

    @property
    def subtask(self) -> Mapping[str, Any]: ...


@contextmanager
def decide_span(folder: JobFolder, region: str) -> Iterator[Span]:
    """Around one decision."""
    with tracer().start_as_current_span(
        f"{PREFIX}.decide", attributes=_place(folder.dag_id, folder.run_id, folder.job, region)
    ) as span:
        yield span


def describe_decided(span: Span, decision: RegionDecision) -> None:
    """What came of it."""
    span.set_attributes(
        {
            f"{PREFIX}.parallelism": decision.parallelism,
            f"{PREFIX}.bytes": decision.total_bytes + decision.broadcast_bytes,
            f"{PREFIX}.skew": round(decision.max_over_mean, 4),
            f"{PREFIX}.rule": decision.rule,
        }
    )


@contextmanager
def subtask_span(run: SubtaskTry, began: float) -> Iterator[Span]:
    """One span for a try of a subtask, from `began` (epoch seconds), also if another process ends it.

    Who is cancelled or overtaken leaves it to another process: that is no end, so there is no span of it.
    """
    from airflow_abs.spark.errors import OperationTakenOverError

    span = tracer().start_span(
        f"{PREFIX}.subtask",
        start_time=round(began * 1e9),
        attributes={
            **_place(run.dag_id, run.run_id, run.job, run.region),
            f"{PREFIX}.subtask": run.subtask["index"],
            f"{PREFIX}.parallelism": run.subtask["subtasks"],
            f"{PREFIX}.bytes": run.subtask.get("bytes", 0),
            f"{PREFIX}.try": run.attempt,
        },
    )
    try:
        yield span
    except OperationTakenOverError:
        raise
    except Exception as error:
        from opentelemetry.trace import Status, StatusCode

        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, type(error).__name__))
        span.end()
        raise
    span.end()


def describe_committed(span: Span, manifest: Manifest) -> None:
    """What it wrote."""
    size = sum(result.bytes for result in manifest.results.values())
    span.set_attributes(
        {f"{PREFIX}.attempt": manifest.attempt, f"{PREFIX}.rows": manifest.rows, f"{PREFIX}.bytes_out": size}
    )


def tracer() -> Any:
    """That which Airflow configures."""
    from opentelemetry import trace

    return trace.get_tracer("airflow_abs")


def _place(dag_id: str, run_id: str, job: str, region: str) -> dict[str, str]:
    return {
        "airflow.dag_id": dag_id,
        "airflow.dag_run.run_id": run_id,
        f"{PREFIX}.job": job,
        f"{PREFIX}.region": region,
    }
