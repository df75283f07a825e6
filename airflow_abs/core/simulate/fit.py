"""The costs with which the simulation of recorded runs takes as long as they really took."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import AirflowCosts, Costs, RegionCost, fit_line
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion
from airflow_abs.core.simulate.simulation import region_work
from airflow_abs.core.simulate.slot_schedule import schedule

_ROUNDS = 30
_LEAST_RATIO, _MOST_RATIO = 0.5, 2.0


def fit_costs(jobs: Sequence[RecordedJob], airflow: AirflowCosts | None = None) -> Costs:
    """Fit the costs of all regions of one job to one or more of its runs.

    Regions that run at the same time share slots, so the seconds of one are not its work alone. Therefore the work is
    corrected, round after round, by how much longer the region took than its simulation.

    Raises:
        InvalidValueError: the runs have different regions; one has no times or no slots.
    """
    airflow = airflow or AirflowCosts()
    _check(jobs)
    names = [region.name for region in jobs[0].regions]
    known = [{region.name: region for region in job.regions} for job in jobs]
    delays = {name: _delay(name, jobs) for name in names}
    hops = [delays[region.name] for region in jobs[0].regions if region.after]
    interval = _interval(jobs, airflow)
    least = min(seconds for job in jobs for region in job.regions for seconds in region.seconds)
    costs = Costs({}, fmean(hops) if hops else airflow.hop, interval, airflow)
    work: list[dict[str, float]] = [{name: sum(regions[name].seconds) for name in names} for regions in known]
    for _ in range(_ROUNDS):
        fitted = {
            name: RegionCost(
                delays[name],
                *fit_line(
                    [(*_volume(regions[name]), done[name]) for regions, done in zip(known, work, strict=True)],
                    least,
                ),
            )
            for name in names
        }
        costs = Costs(fitted, costs.hop, interval, airflow)
        work = [_corrected(job, costs) for job in jobs]
    return costs


def _check(jobs: Sequence[RecordedJob]) -> None:
    names = [region.name for region in jobs[0].regions]
    for job in jobs:
        found = [region.name for region in job.regions]
        if found != names:
            raise InvalidValueError(
                f"run {job.name}: expected the regions {', '.join(names)} of {jobs[0].name}, found {', '.join(found)}"
            )
        for region in job.regions:
            if region.name not in job.spans:
                raise InvalidValueError(
                    f"run {job.name}: nothing is recorded of when the subtasks of {region.name} ran; expected a run "
                    "that has ended, all of it under this version"
                )
            if region.options.slots is None:
                raise InvalidValueError(
                    f"run {job.name}: it does not say how many slots it had; expected a run of a job with slots"
                )


def _delay(name: str, jobs: Sequence[RecordedJob]) -> float:
    spans = [job.spans[name] for job in jobs]
    return fmean(max(0.0, span.start - span.ready) for span in spans)


def _interval(jobs: Sequence[RecordedJob], airflow: AirflowCosts) -> float:
    """The median of what lies between the starts of subtasks."""
    gaps = [
        later - earlier for job in jobs for region in job.regions for earlier, later in pairwise(sorted(region.starts))
    ]
    return median(gaps) if gaps else airflow.interval


def _volume(region: RecordedRegion) -> tuple[int, int]:
    """Subtasks, and the bytes that they read."""
    decision = region.decision
    return decision.parallelism, decision.total_bytes + decision.parallelism * decision.broadcast_bytes


def _corrected(job: RecordedJob, costs: Costs) -> dict[str, float]:
    """Slot seconds by region."""
    slots = max(region.options.slots or 1 for region in job.regions)
    work = [region_work(region, region.decision, costs, slots) for region in job.regions]
    spans = schedule(work, slots)
    done = {}
    for region in work:
        modelled = sum(map(sum, region.subtasks))
        recorded, simulated = job.spans[region.name], spans[region.name]
        ratio = recorded.seconds / max(simulated.seconds, 1e-9)
        done[region.name] = modelled * min(max(ratio, _LEAST_RATIO), _MOST_RATIO)
    return done
