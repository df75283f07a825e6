"""What a subtask costs Airflow: CPU seconds of each component for runs of 1 to 300 subtasks that do nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb

from benchmarks.compare import Comparison, open_arena
from benchmarks.cpu_time import adopt_orphans, difference
from benchmarks.peers import Arena

SIZES = (1, 8, 32, 100, 300)
SETTLE_SECONDS = 120.0
IDLE_SECONDS = 120.0  # the dag-processor reads the DAG files anew every 30 s
COMPONENTS = ("scheduler", "workers", "triggerer", "api-server", "dag-processor", "spark")


def run() -> list[dict[str, int | float]]:
    """One row per size: seconds from the end of `decide` to the last subtask's end, CPU seconds of the whole run by
    component, and `cpu_per_subtask`: what all components of Airflow used more than for one subtask, per subtask.
    `without_idle` leaves out what they use per second when nothing runs: a busy machine makes runs longer."""
    return measure_sizes("noops_{}")


def measure_sizes(dag_id: str) -> list[dict[str, int | float]]:
    """`dag_id` has a place for the size."""
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="airflow-abs-bench-") as name:
        data = Path(name)
        for size in SIZES:
            write_rows(data / "1" / f"noops_{size}", size)
        with open_arena(Comparison([], (), 1, 1, data=data)) as arena:
            _measure(arena, dag_id, SIZES[0], "warm-up")
            idle = _measure_idle(arena)
            rows = [_measure(arena, dag_id, size, "measured") for size in SIZES]
    for row in rows:
        more, others = row["subtasks"] - 1, _airflow_seconds(row) - _airflow_seconds(rows[0])
        row["cpu_per_subtask"] = round(others / max(1, more), 2)
        row["without_idle"] = round((others - idle * (row["wall"] - rows[0]["wall"])) / max(1, more), 3)
    return rows


def _measure_idle(arena: Arena) -> float:
    """CPU seconds per second of all components of Airflow while nothing runs."""
    before, started = arena.cpu(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return _airflow_seconds(difference(arena.cpu(), before)) / (time.monotonic() - started)


def write_rows(folder: Path, count: int) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        duckdb.sql(f"COPY (SELECT {number} AS number) TO '{folder}/{number:03d}.parquet'")


def _measure(arena: Arena, dag_ids: str, size: int, run_id: str) -> dict[str, int | float]:
    dag_id = dag_ids.format(size)
    arena.airflow.api.wait_for_dag(dag_id, SETTLE_SECONDS)
    started = time.monotonic()
    cpu, states = arena.run_dag(dag_id, run_id)
    wall = time.monotonic() - started
    decided = next(each.end for each in states if each.task_id == "job.noop.decide" and each.end)
    ended = max(each.end for each in states if each.task_id == "job.noop.run" and each.end)
    seconds = {component: round(cpu.get(component, 0.0), 1) for component in COMPONENTS}
    ran = round((ended - decided).total_seconds(), 1)
    return {"subtasks": size, "wall": round(wall, 1), "seconds": ran, **seconds}


def _airflow_seconds(row: Mapping[str, float]) -> float:
    return sum(row.get(component, 0.0) for component in COMPONENTS if component != "spark")
