"""Metrics of decisions and runs, through Airflow's own stats (StatsD, Datadog or OpenTelemetry, as it is configured).

All names start with ``adaptive_spark.``; all have the tags ``dag_id``, ``job`` and ``region``. docs/seeing-a-run.md
lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.recovery_claim import list_claims
from airflow_abs.exchange.runs.run_view import RegionView, RunView

PREFIX = "adaptive_spark"
_REPEATED = 1000
"""Attempts above this number repeated an earlier one inside the same try, because something was lost."""


def emit_decision(folder: JobFolder, decision: RegionDecision) -> None:
    """What was decided: gauges, set when it is decided."""
    from airflow_abs.airflow_abilities import stats

    metrics, tags = stats(), _tags(folder, decision.region)
    metrics.gauge(f"{PREFIX}.decision.parallelism", decision.parallelism, tags=tags)
    metrics.gauge(f"{PREFIX}.decision.bytes", decision.total_bytes + decision.broadcast_bytes, tags=tags)
    metrics.gauge(f"{PREFIX}.decision.skew", round(decision.max_over_mean, 4), tags=tags)
    metrics.incr(f"{PREFIX}.decision.clamps", len(decision.clamps), tags=tags)


def emit_run(run: RunView) -> None:
    """What came of a job, region by region: emitted once, when the run's data is released or kept."""
    recovered = [claim for claim in list_claims(run.folder) if claim.recomputed_bytes]
    for region in run.regions:
        sizes = [claim.recomputed_bytes for claim in recovered if claim.region == region.name]
        _emit_region(run.folder, region, sizes)


def _emit_region(folder: JobFolder, region: RegionView, recomputed: Sequence[int]) -> None:
    from airflow_abs.airflow_abilities import stats

    metrics, tags = stats(), _tags(folder, region.name)
    committed = [subtask for subtask in region.subtasks if subtask.is_committed]
    for subtask in committed:
        metrics.timing(f"{PREFIX}.subtask.seconds", (subtask.seconds or 0.0) * 1000, tags=tags)
        if subtask.waited is not None:
            metrics.timing(f"{PREFIX}.subtask.waited", subtask.waited * 1000, tags=tags)
    attempts = [subtask.attempt or 0 for subtask in committed]
    tries = [attempt // _REPEATED if attempt > _REPEATED else attempt for attempt in attempts]
    metrics.incr(f"{PREFIX}.subtask.committed", len(committed), tags=tags)
    metrics.incr(f"{PREFIX}.subtask.retries", sum(max(number - 1, 0) for number in tries), tags=tags)
    metrics.incr(f"{PREFIX}.subtask.recomputations", len(recomputed), tags=tags)
    metrics.incr(f"{PREFIX}.subtask.recomputed_bytes", sum(recomputed), tags=tags)
    metrics.incr(f"{PREFIX}.subtask.rows", sum(subtask.rows or 0 for subtask in committed), tags=tags)
    metrics.incr(f"{PREFIX}.subtask.bytes_out", sum(subtask.bytes_out or 0 for subtask in committed), tags=tags)


def _tags(folder: JobFolder, region: str) -> dict[str, Any]:
    return {"dag_id": folder.dag_id, "job": folder.job, "region": region}
