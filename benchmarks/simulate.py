"""How far `airflow-abs simulate` is from real runs: fitted to runs at some scales, it predicts others, which then run.

The workload is `chain`, with small files and subtasks, so that the fan-out grows with the scale. Fitted runs are
interleaved; predictions are printed before the runs that they are about. Wall is from Airflow's own start of the run to
its end.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from airflow_abs.core.simulate.fit import fit_costs
from airflow_abs.core.simulate.growth import Scenario
from airflow_abs.core.simulate.recorded_job import RecordedJob
from airflow_abs.core.simulate.simulated_job import SimulatedJob
from airflow_abs.core.simulate.simulation import simulate
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.run_reading import read_run
from benchmarks.compare import ROOT, Comparison, open_arena
from benchmarks.cpu_time import adopt_orphans
from benchmarks.datasets import make_tables, verify
from benchmarks.peers import Arena
from benchmarks.workloads import CHAIN

FITTED = (0.3, 2.0)
PREDICTED = (0.1, 1.0, 4.0)
ROUNDS = 2
FILE_BYTES = 16 * 2**20
DATA = ROOT / "build" / "bench-data-small-files"
DAG_ID = f"{CHAIN.name}__scaled"

Row = dict[str, int | float | str]


def run(fitted: Sequence[float] = FITTED, predicted: Sequence[float] = PREDICTED, rounds: int = ROUNDS) -> list[Row]:
    """One row per run: those that were fitted, then those that were predicted before they ran, with the error."""
    adopt_orphans()
    for scale in (*fitted, *predicted):
        make_tables(DATA, CHAIN, scale, FILE_BYTES)
    rows: list[Row] = []
    with open_arena(Comparison([CHAIN], (), min(fitted), 1, data=DATA)) as arena:
        arena.airflow.api.wait_for_dag(DAG_ID, 180.0)
        _run(arena, min(fitted), "warm-up")
        jobs: list[RecordedJob] = []
        walls: list[tuple[float, float]] = []
        for number in range(rounds):
            for scale in fitted:
                job, wall = _run(arena, scale, f"fitted-{scale:g}-{number}")
                jobs.append(job)
                walls.append((scale, wall))
        base, base_scale = jobs[-1], fitted[-1]
        costs = fit_costs(jobs)
        told = {
            scale: simulate(base, costs, Scenario(factor=scale / base_scale, file_bytes=FILE_BYTES))
            for scale in (*fitted, *predicted)
        }
        rows = [_row("fitted", scale, told[scale], job, wall) for job, (scale, wall) in zip(jobs, walls, strict=True)]
        for scale in predicted:
            print(f"  predicted before it ran: scale {scale:g}: {told[scale].wall:.1f} s", flush=True)
        for scale in predicted:
            job, wall = _run(arena, scale, f"predicted-{scale:g}")
            rows.append(_row("predicted", scale, told[scale], job, wall))
    return rows


def _run(arena: Arena, scale: float, run_id: str) -> tuple[RecordedJob, float]:
    """Run the DAG once, check its output; what it recorded, and its seconds."""
    api, tables = arena.airflow.api, arena.tables(CHAIN, scale)
    api.trigger_run(DAG_ID, datetime.now(UTC), {"tables": str(tables)}, run_id)
    state = arena.wait(DAG_ID, run_id)
    if state != "success":
        raise RuntimeError(f"run {run_id} of {DAG_ID} ended as {state}; expected success")
    output = arena.folder / "out" / DAG_ID / run_id
    if problem := verify(CHAIN, tables, output).problem:
        raise RuntimeError(f"run {run_id} of {DAG_ID}: {problem}")
    shutil.rmtree(output)
    found = api.request("GET", f"/dags/{DAG_ID}/dagRuns/{run_id}")
    start, end = (datetime.fromisoformat(found[name]) for name in ("start_date", "end_date"))
    wall = (end - start).total_seconds()
    job = recorded_job(read_run(JobFolder(Path(arena.exchange), DAG_ID, run_id, "job")))
    last = max(region.end for region in job.regions)
    print(f"  {run_id}: {wall:.1f} s, the last subtask after {last:.1f} s", flush=True)
    return job, wall


def _row(kind: str, scale: float, told: SimulatedJob, job: RecordedJob, wall: float) -> Row:
    return {
        "run": kind,
        "scale": scale,
        "megabytes": round(sum(region.source_bytes for region in job.regions) / 1e6),
        "subtasks": sum(region.decision.parallelism for region in job.regions),
        "predicted_subtasks": told.subtasks,
        "seconds": round(wall, 1),
        "predicted_seconds": round(told.wall, 1),
        "error_percent": round(100 * (told.wall / wall - 1), 1),
    }
