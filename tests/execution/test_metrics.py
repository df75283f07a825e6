from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_abs.exchange.records.recovery_claim import claim_recovery, end_claim
from airflow_abs.exchange.runs.run_reading import read_run
from airflow_abs.execution.metrics import emit_decision, emit_run
from tests.recorded_runs import revenue_run

Emitted = list[tuple[str, str, float, dict[str, Any]]]


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Emitted:
    """What went to Airflow's stats: kind, name, value, tags."""
    from airflow.sdk.observability import stats

    found: Emitted = []

    def take(kind: str) -> Any:
        return lambda name, value, *, tags: found.append((kind, name, value, tags))

    for kind in ("gauge", "incr", "timing"):
        monkeypatch.setattr(stats, kind, take(kind))
    return found


def test_a_decision_is_three_gauges_and_the_number_of_its_clamps(tmp_path: Path, emitted: Emitted) -> None:
    run = revenue_run(tmp_path)
    run.run("orders", "customers")
    emit_decision(run.folder, run.decide("enriched"))
    tags = {"dag_id": "daily_revenue", "job": "revenue", "region": "enriched"}
    (decision,) = [run.stored["enriched"].decision]
    assert emitted == [
        ("gauge", "adaptive_spark.decision.parallelism", 6, tags),
        ("gauge", "adaptive_spark.decision.bytes", decision.total_bytes + 41, tags),
        ("gauge", "adaptive_spark.decision.skew", round(decision.max_over_mean, 4), tags),
        ("incr", "adaptive_spark.decision.clamps", 0, tags),
    ]


def test_a_run_tells_seconds_retries_and_recomputations_of_its_subtasks(tmp_path: Path, emitted: Emitted) -> None:
    run = revenue_run(tmp_path)
    run.run("orders")
    run.commit("orders", 1, attempt=3)  # two retries
    run.commit("orders", 2, attempt=2001)  # one retry, repeated once inside it
    for attempt, size in ((1, 500), (1001, 70)):  # lost, recomputed, and that lost and recomputed as well
        claimed = claim_recovery(
            run.folder, "orders", 0, decision="d", owner="enriched[0]", lost_attempt=attempt, now=0.0
        )
        assert claimed is not None
        end_claim(run.folder, claimed.claim, size)
    emit_run(read_run(run.folder))
    orders = {name: value for kind, name, value, tags in emitted if kind == "incr" and tags["region"] == "orders"}
    assert orders["adaptive_spark.subtask.committed"] == 4
    assert orders["adaptive_spark.subtask.retries"] == 3
    assert orders["adaptive_spark.subtask.recomputations"] == 2
    assert orders["adaptive_spark.subtask.recomputed_bytes"] == 570
    assert orders["adaptive_spark.subtask.rows"] == 127 + 131 + 143 + 156
    seconds = [
        value for kind, name, value, _ in emitted if (kind, name) == ("timing", "adaptive_spark.subtask.seconds")
    ]
    assert seconds == pytest.approx([1500.0, 1600.0, 1700.0, 1800.0])  # Airflow's timings are milliseconds
    waited = [value for kind, name, value, _ in emitted if (kind, name) == ("timing", "adaptive_spark.subtask.waited")]
    assert waited == pytest.approx([0.0, 250.0, 500.0, 750.0])
