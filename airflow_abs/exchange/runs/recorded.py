"""A finished run in the exchange as the simulation takes it."""

from __future__ import annotations

from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion, RecordedResult
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.runs.run_view import RegionView, RunView


def recorded_job(run: RunView) -> RecordedJob:
    """Everything that the run's plan, decisions and manifests say.

    Raises:
        ExchangeError: a region is not decided, or a subtask has not committed.
    """
    return RecordedJob(
        f"{run.folder.dag_id}/{run.folder.run_id}/{run.folder.job}",
        tuple(_recorded_region(run, region) for region in run.regions),
    )


def _recorded_region(run: RunView, region: RegionView) -> RecordedRegion:
    stored, planned = region.stored, region.planned
    count = stored.decision.parallelism if stored else 0
    if stored is None or region.committed < count:
        found = f"{region.committed} of {count} subtasks committed" if stored else "not decided"
        raise ExchangeError(
            f"run {run.folder.dag_id}/{run.folder.run_id}: region {region.name} is {found}; expected a finished run "
            "to simulate from"
        )
    manifests = [region.manifests[index] for index in range(count)]
    waits = [manifest.waited for manifest in manifests]
    began, ready = run.plan.began, stored.measured_at
    since = None if began is None or ready is None else ready - began
    starts = tuple(since + wait for wait in waits if since is not None and wait is not None)
    known = len(starts) == count
    return RecordedRegion(
        decision=stored.decision,
        inputs=tuple(stored.as_measured(entry) for entry in planned.inputs),
        sources=tuple(stored.as_listed()),
        producers={entry.name: entry.region for entry in planned.inputs},
        results=_results(region, planned),
        shuffles=any(step.shuffles for step in planned.steps),
        starts=starts if known else (),
        seconds=tuple(manifest.seconds for manifest in manifests) if known else (),
    )


def _results(region: RegionView, planned: PlannedRegion) -> tuple[RecordedResult, ...]:
    sinks = {sink.result for sink in planned.sinks}
    return tuple(
        RecordedResult(
            step.result,
            sum(manifest.result(step.result).bytes for manifest in region.manifests.values()),
            step.subpartitions,
            step.result in sinks,
            len(step.result) + len(step.schema),
        )
        for step in planned.steps
    )
