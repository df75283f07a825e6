"""A `RunView` as plain values: `airflow-abs explain --json` prints them, the page in Airflow draws them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from airflow_abs.core.decide.reason import describe_clamp, describe_rule
from airflow_abs.exchange.records.plan import PlannedEdge
from airflow_abs.exchange.runs.run_view import RegionView, RunView, SubtaskView


def run_to_json(run: RunView) -> dict[str, Any]:
    """All there is to show. Sizes are bytes, times seconds, ranges half-open; None is what is not known yet."""
    return {
        "dag_id": run.folder.dag_id,
        "run_id": run.folder.run_id,
        "job": run.folder.job,
        "spark": run.plan.spark_version,
        "slots": run.plan.slots,
        "options": run.plan.options.told(),
        "regions": [region_to_json(region) for region in run.regions],
    }


def region_to_json(region: RegionView) -> dict[str, Any]:
    """One region; `parallelism`, `rule` and `reason` are None while it is undecided."""
    decision = region.decision
    return {
        "name": region.name,
        "title": region.title,
        "vertices": list(region.planned.vertices),
        "declared": list(region.declared),
        "edges": [asdict(edge) for edge in region.edges],
        "inside": [_inside_to_json(region, edge) for edge in region.inside],
        "sinks": [{"vertex": sink.vertex, "path": sink.label} for sink in region.planned.sinks],
        "bound": region.planned.subpartitions,
        "parallelism": decision.parallelism if decision else None,
        "rule": decision.rule if decision else None,
        "reason": decision.reason if decision else None,
        "rule_told": describe_rule(decision.rule) if decision else None,
        "clamps": [str(clamp) for clamp in decision.clamps] if decision else [],
        "clamps_told": [describe_clamp(clamp) for clamp in decision.clamps] if decision else [],
        "target_bytes": decision.options.target_bytes if decision else None,
        "max_over_mean": round(decision.max_over_mean, 3) if decision else None,
        "bytes_in": region.bytes_in,
        "divided_bytes": region.divided_bytes,
        "broadcast_bytes": decision.broadcast_bytes if decision else None,
        "bytes_out": region.bytes_out,
        "rows": region.rows,
        "seconds": region.seconds,
        "attempts": region.attempts,
        "committed": region.committed,
        "bytes_by_subpartition": list(region.bytes_by_subpartition),
        "subtasks": [_subtask_to_json(subtask) for subtask in region.subtasks],
        "expectations": [verdict.to_json() for verdict in region.verdicts],
        "problems": list(region.problems),
        "strange": list(region.strange),
        "durability": list(map(region.describe_edge, region.planned_edges)),
        "hot_key": _hot_key_to_json(region),
        "took": region.took,
        "predicted": asdict(region.predicted) if region.predicted else None,
    }


def _inside_to_json(region: RegionView, edge: PlannedEdge) -> dict[str, Any]:
    written, passed = region.written_inside(edge), region.passed_inside(edge)
    found = written or passed
    return {
        **asdict(edge),
        "bytes": found.bytes if found else None,
        "rows": found.rows if found else None,
        "is_estimate": written is None,
        "counted": region.describe_rows(edge),
    }


def _hot_key_to_json(region: RegionView) -> dict[str, Any] | None:
    found = region.hot_key
    if found is None:
        return None
    told = {"key": found.key, "told": found.describe(), "advice": region.hot_key_advice}
    return {**asdict(found), "share": round(found.share, 3), **told}


def _subtask_to_json(subtask: SubtaskView) -> dict[str, Any]:
    span = subtask.subpartitions
    return {
        "index": subtask.index,
        "subpartitions": [span.start, span.stop] if span else None,
        "reads": subtask.reads,
        "hot": subtask.hot_part is not None,
        "splits": subtask.splits,
        "files": subtask.files,
        "bytes": subtask.bytes,
        "attempt": subtask.attempt,
        "rows": subtask.rows,
        "bytes_out": subtask.bytes_out,
        "seconds": subtask.seconds,
        "waited": subtask.waited,
        "began": subtask.began,
        "stale": subtask.is_stale,
    }
