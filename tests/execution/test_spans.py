"""What a collector is told: one span for each decision, one for each try of a subtask."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from airflow_abs.execution import spans
from airflow_abs.execution.decide import ready_since
from airflow_abs.execution.subtask import SubtaskRun
from tests.recorded_runs import revenue_run

RUN = SubtaskRun(
    conn_id="spark",
    exchange="file:///x",
    dag_id="dag",
    run_id="run",
    job="job",
    task_id="job.orders.run",
    map_index=3,
    region="orders",
    attempt=2,
    subtask={"index": 3, "subtasks": 8, "decision": "d", "bytes": 900},
    stall_after=600.0,
)
PLACE = {
    "airflow.dag_id": "dag",
    "airflow.dag_run.run_id": "run",
    "adaptive_spark.job": "job",
    "adaptive_spark.region": "orders",
}
SUBTASK = {
    **PLACE,
    "adaptive_spark.subtask": 3,
    "adaptive_spark.parallelism": 8,
    "adaptive_spark.bytes": 900,
    "adaptive_spark.try": 2,
}


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """A collector in this process, in place of the tracer that Airflow configures once for a whole process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", lambda: provider.get_tracer("test"))
    return exporter


def test_a_decision_is_a_span_with_its_numbers(tmp_path: Path, exported: InMemorySpanExporter) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    with spans.decide_span(run.folder, "enriched") as span:
        decision = run.decide("enriched")
        spans.describe_decided(span, decision)
    (found,) = exported.get_finished_spans()
    assert (found.name, found.attributes["adaptive_spark.region"]) == ("adaptive_spark.decide", "enriched")
    assert found.attributes["adaptive_spark.parallelism"] == 6
    assert found.attributes["adaptive_spark.bytes"] == decision.total_bytes + decision.broadcast_bytes


def test_a_subtask_is_one_span_from_when_it_was_taken_up(tmp_path: Path, exported: InMemorySpanExporter) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    with spans.subtask_span(RUN, began=1000.5) as span:
        spans.describe_committed(span, run.manifests["orders"][0])
    (found,) = exported.get_finished_spans()
    assert (found.name, found.start_time) == ("adaptive_spark.subtask", 1_000_500_000_000)
    manifest = run.manifests["orders"][0]
    size = sum(result.bytes for result in manifest.results.values())
    written = {"adaptive_spark.attempt": 1, "adaptive_spark.rows": manifest.rows, "adaptive_spark.bytes_out": size}
    assert dict(found.attributes) == {**SUBTASK, **written}


def test_a_subtask_that_fails_says_so_and_one_that_is_handed_over_says_nothing(exported: InMemorySpanExporter) -> None:
    def run(error: BaseException) -> Any:
        with spans.subtask_span(RUN, began=1000.5):
            raise error

    with pytest.raises(asyncio.CancelledError):
        run(asyncio.CancelledError())
    assert exported.get_finished_spans() == ()
    with pytest.raises(ValueError, match="no credit line"):
        run(ValueError("no credit line"))
    (found,) = exported.get_finished_spans()
    assert found.status.description == "ValueError"
    assert dict(found.attributes) == SUBTASK


def test_without_a_collector_spans_cost_nothing_and_are_nothing() -> None:
    with spans.subtask_span(RUN, began=1000.5) as span:
        assert not span.is_recording()


def test_a_subtask_could_have_run_when_the_last_one_before_it_had_ended() -> None:
    reports = {"orders": [{"ended": 10.0}, {"ended": 30.5}], "customers": [{"ended": 20.0}]}
    assert ready_since(reports, now=40.0) == 30.5
    assert ready_since({}, now=40.0) == 40.0
