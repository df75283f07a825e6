"""`airflow-abs simulate`: what a recorded run would be with more bytes, or with other settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from airflow_abs.cli.commands.runs import find_folders
from airflow_abs.cli.output.simulation_text import Simulation, describe
from airflow_abs.cli.output.tables import show
from airflow_abs.core.simulate.fit import fit_costs
from airflow_abs.core.simulate.growth import Scenario, factor_for
from airflow_abs.core.simulate.recorded_job import RecordedJob
from airflow_abs.core.simulate.simulated_job import SimulatedRegion
from airflow_abs.core.simulate.simulation import simulate
from airflow_abs.exchange.runs.recorded import recorded_job
from airflow_abs.exchange.runs.run_reading import read_run


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """`scenario.factor` counts unless `bytes_per_day` is given."""

    scenario: Scenario = field(default_factory=Scenario)
    bytes_per_day: int | None = None
    runs_per_day: int = 1


def show_simulation(names: Sequence[str], exchange: str | None, options: SimulateOptions, *, as_json: bool) -> int:
    """Scale the first run, with costs fitted to all of them, and print what comes out; the exit status."""
    jobs = [_read(name, exchange) for name in names]
    costs = fit_costs(jobs)
    scenario = _scenario(jobs[0], options)
    simulation = Simulation(jobs, costs, scenario, simulate(jobs[0], costs, scenario), options.runs_per_day)
    if as_json:
        print(json.dumps(to_json(simulation), indent=2))
    else:
        show(describe(simulation))
    return 0


def _read(name: str, exchange: str | None) -> RecordedJob:
    folders = find_folders(name, exchange)
    if len(folders) > 1:
        jobs = ", ".join(folder.job for folder in folders)
        raise ValueError(f"run {name!r}: holds the jobs {jobs}; name one, as dag_id/run_id/job")
    return recorded_job(read_run(folders[0]))


def _scenario(job: RecordedJob, options: SimulateOptions) -> Scenario:
    if options.bytes_per_day is None:
        return options.scenario
    per_run = options.bytes_per_day // options.runs_per_day
    return replace(options.scenario, factor=factor_for(job, per_run, options.scenario.fixed))


def to_json(simulation: Simulation) -> dict[str, Any]:
    """Plain values; sums are of one run."""
    run = simulation.run
    return {
        "fitted_to": [job.name for job in simulation.fitted_to],
        "factor": simulation.scenario.factor,
        "slots": run.slots,
        "runs_per_day": simulation.runs_per_day,
        "seconds": round(run.wall, 3),
        "seconds_without_subtask": round(run.airflow_wall, 3),
        "slot_seconds": round(run.slot_seconds, 3),
        "subtasks": run.subtasks,
        "most_subtasks_at_once": run.most_subtasks_at_once,
        "task_instances": run.task_instances,
        "airflow_cpu_seconds": round(run.airflow_cpu, 3),
        "source_bytes": run.source_bytes,
        "exchange_bytes": run.exchange_bytes,
        "xcom_bytes": run.xcom_bytes,
        "manifest_bytes": run.manifest_bytes,
        "costs": {name: asdict(cost) for name, cost in simulation.costs.regions.items()},
        "regions": [_region_to_json(region) for region in run.regions],
        "assumptions": simulation.assumptions(),
    }


def _region_to_json(region: SimulatedRegion) -> dict[str, Any]:
    return {
        "region": region.name,
        "bytes_in": region.bytes_in,
        "subtasks": region.decision.parallelism,
        "waves": region.waves,
        "largest": region.largest,
        "ready": round(region.span.ready, 3),
        "start": round(region.span.start, 3),
        "end": round(region.span.end, 3),
        "starting": round(region.starting, 3),
        "slot_seconds": round(region.slot_seconds, 3),
        "airflow_cpu_seconds": round(region.airflow_cpu, 3),
        "exchange_bytes": region.exchange_bytes,
        "xcom_bytes_each": region.xcom_bytes,
        "manifest_bytes_each": region.manifest_bytes,
        "reason": region.decision.reason,
    }
