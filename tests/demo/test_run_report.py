from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions
from airflow_abs.core.graph.partitioning import Partitioning
from airflow_abs.demo.airflow_api import SubtaskState
from airflow_abs.demo.run_report import RunReport, VertexReport, lines_of_fan_out, lines_of_run, read_vertices
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.plan import JobPlan, PlannedRegion
from airflow_abs.exchange.storage.whole_files import write_json
from tests.recorded_runs import OPTIONS

START = datetime(2026, 1, 2, tzinfo=UTC)


def state(task_id: str, map_index: int, start: float, end: float) -> SubtaskState:
    return SubtaskState(
        task_id, map_index, "success", 1, START + timedelta(seconds=start), START + timedelta(seconds=end)
    )


def region(*vertices: str) -> PlannedRegion:
    return PlannedRegion(vertices[-1], vertices, (), (), (), (), None, 4, None)


def run(day: int, *subtasks: int, problem: str | None = None) -> RunReport:
    vertices = tuple(
        VertexReport(name, 2048 * count, count, f"{count} KB -> {count} subtasks", 1.25, 3.5)
        for name, count in zip(("orders", "enriched"), subtasks, strict=False)
    )
    return RunReport("revenue", "r1", "2026-01-02", date(2026, 1, day), 12.34, 5, problem, vertices)


def test_a_region_is_told_under_all_its_vertices_from_first_start_to_last_end(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path, "dag", "demo__2026-01-01", "job")
    folder.region_path("totals").mkdir(parents=True)
    plan = JobPlan("p1", (region("spend", "totals"), region("late")), OPTIONS, 2, "4.2.0")
    write_json(folder.plan_path, plan.to_json())
    # Four subpartitions of 60, 60, 60 and 20 bytes and a target of 120: two subtasks of 120 and 80, mean 100.
    inputs = [
        BlockingInput("orders", Partitioning.HASH, ((60, 60, 60, 20),)),
        BlockingInput("customers", Partitioning.BROADCAST, ((7,),)),
    ]
    decision = decide_region("totals", inputs, [], RegionOptions(target_bytes=120))
    write_json(folder.decision_path("totals"), StoredDecision("p1", decision, {}, {}).to_json())
    states = [state("job.totals.run", 0, 1, 3.5), state("job.totals.run", 1, 2, 6), state("job.late.run", 0, 0, 99)]
    assert read_vertices(tmp_path, "dag", "demo__2026-01-01", states) == (
        VertexReport("spend + totals", 207, 2, decision.reason, 1.2, 5.0),
    )
    assert read_vertices(tmp_path, "dag", "another", states) == ()


def test_a_run_is_shown_as_a_line_and_a_table() -> None:
    assert lines_of_run(run(1, 1, 12)) == [
        "revenue, day 2026-01-01: 5 rows, equal to DuckDB's; 12.3 s",
        "  vertex      bytes in  subtasks  max/mean  seconds  why",
        "  orders       2.0 KiB         1      1.25      3.5  1 KB -> 1 subtasks",
        "  enriched    24.0 KiB        12      1.25      3.5  12 KB -> 12 subtasks",
    ]


def test_a_run_that_went_wrong_shows_its_problem() -> None:
    assert lines_of_run(run(1, problem="2 rows are missing")) == [
        "revenue, day 2026-01-01: NOT RIGHT; 12.3 s",
        "  2 rows are missing",
    ]


def test_fan_out_is_shown_by_vertex_and_day() -> None:
    assert lines_of_fan_out([run(1, 1, 1), run(3, 4, 12), run(4)]) == [
        "revenue   2026-01-01  2026-01-03  2026-01-04   subtasks decided",
        "orders             1           4           -",
        "enriched           1          12           -",
    ]


def test_a_run_as_json_has_the_documented_fields() -> None:
    assert run(1, 2).to_json() == {
        "dag_id": "revenue",
        "run_id": "r1",
        "logical_date": "2026-01-02",
        "day": "2026-01-01",
        "verified": True,
        "problem": None,
        "rows": 5,
        "seconds": 12.34,
        "vertices": [
            {
                "vertex": "orders",
                "bytes_in": 4096,
                "subtasks": 2,
                "reason": "2 KB -> 2 subtasks",
                "max_over_mean": 1.25,
                "seconds": 3.5,
            }
        ],
    }
