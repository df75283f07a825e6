"""What the demo tells about a run: a row per vertex, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.wording import format_bytes
from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.exchange.runs.run_list import list_runs
from airflow_abs.exchange.runs.run_reading import read_decisions
from airflow_abs.exchange.runs.run_view import RegionView


@dataclass(frozen=True, slots=True)
class VertexReport:
    """One region under the names of its vertices. `seconds` from the first subtask's start to the last one's end."""

    vertex: str
    bytes_in: int
    subtasks: int
    reason: str
    max_over_mean: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RunReport:
    """One DAG run; `problem` is None if it succeeded and its output is right."""

    dag_id: str
    run_id: str
    logical_date: str
    day: date
    seconds: float
    rows: int
    problem: str | None
    vertices: tuple[VertexReport, ...]

    @property
    def verified(self) -> bool:
        return self.problem is None

    def to_json(self) -> dict[str, Any]:
        return {
            "dag_id": self.dag_id,
            "run_id": self.run_id,
            "logical_date": self.logical_date,
            "day": str(self.day),
            "verified": self.verified,
            "problem": self.problem,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "vertices": [asdict(vertex) for vertex in self.vertices],
        }


def read_vertices(exchange: Path, dag_id: str, run_id: str, states: Sequence[SubtaskState]) -> tuple[VertexReport, ...]:
    """A row per region that has been decided, in the plan's order, from what the run left in the exchange."""
    held = sorted(list_runs(exchange, dag_id, run_id), key=str)
    return tuple(
        _vertex(region, region.decision, _span_seconds(states, f"{each.folder.job}.{region.name}.run"))
        for each in held
        for region in read_decisions(each.folder).regions
        if region.decision is not None
    )


def lines_of_run(run: RunReport) -> list[str]:
    """The run in one line, then a table of its vertices."""
    outcome = f"{run.rows:,} rows, equal to DuckDB's" if run.verified else "NOT RIGHT"
    width = max([6, *(len(vertex.vertex) for vertex in run.vertices)])
    lines = [f"{run.dag_id}, day {run.day}: {outcome}; {run.seconds:.1f} s"]
    if run.vertices:
        lines.append(f"  {'vertex':<{width}}  {'bytes in':>10}  {'subtasks':>8}  {'max/mean':>8}  {'seconds':>7}  why")
    lines += [
        f"  {each.vertex:<{width}}  {format_bytes(each.bytes_in):>10}  {each.subtasks:>8}  {each.max_over_mean:>8.2f}"
        f"  {each.seconds:>7.1f}  {each.reason}"
        for each in run.vertices
    ]
    return lines + ([f"  {run.problem}"] if run.problem else [])


def lines_of_fan_out(runs: Sequence[RunReport]) -> list[str]:
    """Subtasks by vertex and day for every DAG: the fan-out follows the volume."""
    lines: list[str] = []
    for dag_id in dict.fromkeys(run.dag_id for run in runs):
        own = [run for run in runs if run.dag_id == dag_id]
        counts: Mapping[str, dict[date, int]] = {
            name: {run.day: row.subtasks for run in own for row in run.vertices if row.vertex == name}
            for name in dict.fromkeys(row.vertex for run in own for row in run.vertices)
        }
        width = max([len(dag_id), *map(len, counts)])
        lines.append(f"{dag_id:<{width}}  " + "  ".join(str(run.day) for run in own) + "   subtasks decided")
        lines += [
            f"{name:<{width}}  " + "  ".join(f"{by_day.get(run.day, '-'):>10}" for run in own)
            for name, by_day in counts.items()
        ]
    return lines


def _vertex(region: RegionView, decision: RegionDecision, seconds: float) -> VertexReport:
    return VertexReport(
        vertex=region.title,
        bytes_in=region.bytes_in or 0,
        subtasks=decision.parallelism,
        reason=decision.reason,
        max_over_mean=round(decision.max_over_mean, 3),
        seconds=round(seconds, 3),
    )


def _span_seconds(states: Sequence[SubtaskState], task_id: str) -> float:
    own = [state for state in states if state.task_id == task_id]
    starts = [state.start for state in own if state.start]
    ends = [state.end for state in own if state.end]
    return (max(ends) - min(starts)).total_seconds() if starts and ends else 0.0
