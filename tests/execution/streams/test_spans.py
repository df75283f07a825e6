"""What a collector is told of a stream: a span for each batch, and one for each state that it has left."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from airflow_abs.core.stream_life.lag import LagGrows
from airflow_abs.core.stream_life.life import Batch, StateChange, StreamLife
from airflow_abs.execution import spans
from airflow_abs.execution.streams.spans import PREFIX, StreamSpans

DOCS = Path(__file__).parents[3] / "docs/streams.md"
PLACE = {"airflow.dag_id": "clicks", "airflow.dag_run.run_id": "once", "airflow.task_id": "by_minute"}
SPANS = StreamSpans("clicks", "once", "by_minute")
WAITED = StateChange(100.0, "Created", "WaitingForResources", "started")
STARTED = StateChange(100.0, "CreatingExecutionGraph", "Executing", "slots are assigned")
FAILED = StateChange(130.5, "Executing", "Restarting", "x" * 5000)


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "tracer", lambda: provider.get_tracer("test"))
    return exporter


def test_a_batch_is_a_span_over_its_seconds(exported: InMemorySpanExporter) -> None:
    SPANS.emit(Batch(3, 10.0, 2.5, 100, 50, 7, 4096, 12.5), StreamLife())
    (found,) = exported.get_finished_spans()
    assert (found.name, found.start_time, found.end_time) == (f"{PREFIX}.batch", 7_500_000_000, 10_000_000_000)
    told = {"batch": 3, "rows_in": 100, "rows_out": 50, "lag": 12.5, "state_rows": 7, "state_bytes": 4096}
    assert found.attributes == PLACE | {f"{PREFIX}.{name}": value for name, value in told.items()}


def test_what_nobody_knows_of_a_batch_is_left_out(exported: InMemorySpanExporter) -> None:
    SPANS.emit(Batch(3, 10.0, 2.5, 0), StreamLife())
    (found,) = exported.get_finished_spans()
    assert not {f"{PREFIX}.rows_out", f"{PREFIX}.lag"} & set(found.attributes or ())


def test_a_state_is_a_span_from_when_it_was_entered_until_it_was_left(exported: InMemorySpanExporter) -> None:
    life = StreamLife().with_change(STARTED)
    SPANS.emit(STARTED, life)
    SPANS.emit(FAILED, life.with_change(FAILED))
    (found,) = exported.get_finished_spans()
    assert (found.name, found.start_time, found.end_time) == (f"{PREFIX}.state", 100_000_000_000, 130_500_000_000)
    attributes = found.attributes or {}
    assert (attributes[f"{PREFIX}.state"], attributes[f"{PREFIX}.next"]) == ("Executing", "Restarting")
    assert len(str(attributes[f"{PREFIX}.reason"])) == 1000  # as it is remembered


def test_a_state_in_which_its_process_died_is_none(exported: InMemorySpanExporter) -> None:
    SPANS.emit(WAITED, StreamLife().with_change(STARTED).with_change(WAITED))
    assert not exported.get_finished_spans()


def test_an_alarm_is_none(exported: InMemorySpanExporter) -> None:
    SPANS.emit(LagGrows(10, 1.0, 2.0), StreamLife())
    assert not exported.get_finished_spans()


def test_every_span_and_attribute_is_documented(exported: InMemorySpanExporter) -> None:
    SPANS.emit(Batch(3, 10.0, 2.5, 100, 50, 7, 4096, 12.5), StreamLife())
    SPANS.emit(FAILED, StreamLife().with_change(STARTED).with_change(FAILED))
    text = DOCS.read_text()
    for found in exported.get_finished_spans():
        row = next(line for line in text.splitlines() if f"`{found.name}`" in line)
        for name in set(found.attributes or ()) - set(PLACE):
            assert f"`{name.removeprefix(f'{PREFIX}.')}`" in row
