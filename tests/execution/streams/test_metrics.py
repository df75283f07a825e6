"""Metrics of streams under the names that docs/streams.md lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from airflow_abs.core.stream_life.lag import LagFell, LagGrows
from airflow_abs.core.stream_life.life import Batch, StateChange, StreamLife
from airflow_abs.execution.streams.metrics import PREFIX, StreamMetrics, configure_stats

Emitted = list[tuple[str, str, float]]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """What went to Airflow's stats: kind, name, value; with the stream's tags."""
    from airflow.sdk.observability import stats

    found: Emitted = []

    def take(kind: str) -> Any:
        def emit(name: str, value: float, *, tags: dict[str, Any]) -> None:
            assert tags == {"dag_id": "clicks", "task_id": "by_minute"}
            found.append((kind, name.removeprefix("adaptive_spark.stream."), value))

        return emit

    for kind in ("gauge", "incr", "timing"):
        monkeypatch.setattr(stats, kind, take(kind))
    return found


METRICS = StreamMetrics("clicks", "by_minute")


def test_a_batch_tells_rows_rates_lag_and_state(emitted: Emitted) -> None:
    METRICS.emit(Batch(3, 10.0, 2.0, 100, 50, 7, 4096, 12.5), StreamLife())
    assert emitted == [
        ("timing", "batch.seconds", 2000.0),
        ("incr", "rows_in", 100),
        ("gauge", "rows_in_per_second", 50.0),
        ("incr", "rows_out", 50),
        ("gauge", "rows_out_per_second", 25.0),
        ("gauge", "lag", 12.5),
        ("gauge", "state.rows", 7),
        ("gauge", "state.bytes", 4096),
    ]


def test_what_nobody_knows_is_not_told(emitted: Emitted) -> None:
    METRICS.emit(Batch(3, 10.0, 2.0, 0), StreamLife())
    names = ["batch.seconds", "rows_in_per_second", "state.rows", "state.bytes"]
    assert [name for _, name, _ in emitted] == names


def test_restarts_and_rescales_are_counted_and_other_changes_are_not(emitted: Emitted) -> None:
    for left, entered in (
        ("Executing", "Restarting"),
        ("Restarting", "WaitingForResources"),
        ("Restarting", "CreatingExecutionGraph"),
    ):
        METRICS.emit(StateChange(1.0, left, entered, "why"), StreamLife())
    assert emitted == [("incr", "restarts", 1), ("incr", "rescales", 1)]


def test_the_alarm_is_one_as_long_as_it_lasts(emitted: Emitted) -> None:
    for told in (LagGrows(10, 1.0, 50.0), LagFell(1.0)):
        METRICS.emit(told, StreamLife().with_alarm(told, 1.0))
    assert emitted == [("gauge", "lag_alarm", 1), ("gauge", "lag_alarm", 0)]


def test_the_process_of_triggers_gets_the_backend_that_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow configures it for tasks alone; without this the metrics of streams would go nowhere."""
    from airflow.sdk.observability import stats
    from airflow.sdk.observability.metrics import stats_utils

    given: dict[str, Any] = {}
    monkeypatch.setattr(stats, "initialize", lambda **arguments: given.update(arguments))
    configure_stats.cache_clear()
    configure_stats()
    configure_stats.cache_clear()
    assert given["factory"] is stats_utils.get_stats_factory()


def test_the_page_lists_every_name() -> None:
    page = (DOCS / "streams.md").read_text()
    source = (Path(__file__).parents[3] / "airflow_abs" / "execution" / "streams" / "metrics.py").read_text()
    names = set(re.findall(r"_(?:count|gauge)\(\"([\w.]+)\"", source)) | {"batch.seconds"}
    assert len(names) == 12
    assert [name for name in sorted(names) if f"`{PREFIX}.{name}`" not in page] == []
