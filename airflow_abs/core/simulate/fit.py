"""The costs with which the simulation of recorded runs takes as long as they really took.

What a run records of a region is when its subtasks started and ended. Regions that run at the same time share slots, so
these seconds are not its work alone. Therefore the work is guessed, and the guess corrected, round after round:

    seconds of the subtasks ──► slot seconds by region ──fit_region──► costs ──schedule──► simulated span
                                     ▲                                                        │
                                     └── times recorded span / simulated span (0.5 to 2) ◄────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import AirflowCosts, Costs, RegionCost
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion
from airflow_abs.core.simulate.simulation import region_work
from airflow_abs.core.simulate.slot_schedule import schedule

_ROUNDS = 30
_LEAST_CORRECTION, _MOST_CORRECTION = 0.5, 2.0
_LEAST_SECONDS = 1e-9  # what took no time at all took this
_ALIKE = 1e-6  # share of the determinant below which runs cannot tell seconds per subtask from those per byte


@dataclass(frozen=True, slots=True)
class RegionWorkload:
    """What one run did in a region: its subtasks, the bytes that they read, and their slot seconds."""

    subtasks: int
    bytes: int
    slot_seconds: float


def fit_costs(jobs: Sequence[RecordedJob], airflow: AirflowCosts | None = None) -> Costs:
    """Fit the costs of all regions of one job to one or more of its runs.

    Raises:
        InvalidValueError: the runs have different regions; one has no times or no slots.
    """
    airflow = airflow or AirflowCosts()
    _check(jobs)
    delays = {region.name: _delay(region.name, jobs) for region in jobs[0].regions}
    hops = [delays[region.name] for region in jobs[0].regions if region.after]
    hop, interval = fmean(hops) if hops else airflow.hop, _interval(jobs, airflow)
    least_seconds = min(seconds for job in jobs for region in job.regions for seconds in region.seconds)
    work = [{region.name: sum(region.seconds) for region in job.regions} for job in jobs]
    costs = Costs({}, hop, interval, airflow)
    for _ in range(_ROUNDS):
        fitted = {}
        for index, name in enumerate(delays):
            runs = [_workload(job.regions[index], done[name]) for job, done in zip(jobs, work, strict=True)]
            fitted[name] = RegionCost(delays[name], *fit_region(runs, least_seconds))
        costs = Costs(fitted, hop, interval, airflow)
        work = [_corrected_work(job, costs) for job in jobs]
    return costs


def fit_region(runs: Sequence[RegionWorkload], fixed_if_alike: float) -> tuple[float, float]:
    """Seconds per subtask and seconds per byte, neither below 0, that come nearest to what was seen.

    Each run says `per_subtask * subtasks + per_byte * bytes = slot_seconds`. Divided by its slot seconds, so that
    errors count in proportion, that is `per_subtask * subtask_rate + per_byte * byte_rate = 1`; the answer has the
    smallest sum of squared errors.

    Args:
        runs: at least one.
        fixed_if_alike: the seconds per subtask if the runs are so alike that they cannot tell; at most half of all.
    """
    subtask_rates = [run.subtasks / max(run.slot_seconds, _LEAST_SECONDS) for run in runs]
    byte_rates = [run.bytes / max(run.slot_seconds, _LEAST_SECONDS) for run in runs]
    # The two equations whose solution has the smallest sum of squares:
    #   per_subtask * subtasks_squared + per_byte * products      = sum(subtask_rates)
    #   per_subtask * products         + per_byte * bytes_squared = sum(byte_rates)
    subtasks_squared = sum(rate * rate for rate in subtask_rates)
    products = sum(one * other for one, other in zip(subtask_rates, byte_rates, strict=True))
    bytes_squared = sum(rate * rate for rate in byte_rates)
    only_subtasks = sum(subtask_rates) / subtasks_squared
    if not bytes_squared:
        return only_subtasks, 0.0
    determinant = subtasks_squared * bytes_squared - products * products
    if determinant <= _ALIKE * subtasks_squared * bytes_squared:
        per_subtask = min(fixed_if_alike, only_subtasks / 2)
        return per_subtask, max(0.0, (sum(byte_rates) - per_subtask * products) / bytes_squared)
    per_subtask = (sum(subtask_rates) * bytes_squared - sum(byte_rates) * products) / determinant
    per_byte = (sum(byte_rates) * subtasks_squared - sum(subtask_rates) * products) / determinant
    if per_subtask < 0:
        return 0.0, sum(byte_rates) / bytes_squared
    return (per_subtask, per_byte) if per_byte >= 0 else (only_subtasks, 0.0)


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
                    f"run {job.name}: it has no record of when the subtasks of {region.name} ran; expected a "
                    "finished run, all of it recorded by this version"
                )
            if region.options.slots is None:
                raise InvalidValueError(
                    f"run {job.name}: its number of slots is not recorded; expected a run of a job with slots"
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


def _workload(region: RecordedRegion, slot_seconds: float) -> RegionWorkload:
    decision = region.decision
    read = decision.total_bytes + decision.parallelism * decision.broadcast_bytes
    return RegionWorkload(decision.parallelism, read, slot_seconds)


def _corrected_work(job: RecordedJob, costs: Costs) -> dict[str, float]:
    """Slot seconds by region: those of the model, times how much longer the region took than in the simulation."""
    slots = max(region.options.slots or 1 for region in job.regions)
    work = [region_work(region, region.decision, costs, slots) for region in job.regions]
    simulated = schedule(work, slots)
    corrected = {}
    for region in work:
        modelled = sum(map(sum, region.subtasks))
        too_short = job.spans[region.name].seconds / max(simulated[region.name].seconds, _LEAST_SECONDS)
        corrected[region.name] = modelled * min(max(too_short, _LEAST_CORRECTION), _MOST_CORRECTION)
    return corrected
