"""What a recorded run would be with more bytes, or other settings: fan-out, waves, seconds, exchange.

    recorded run ──Growth──► sizes of the scenario ──decide_region──► fan-out, who reads what
                                                                        │ costs (`fit`)
    seconds, what Airflow and the exchange hold ◄──schedule── work of the slots

Numbers and ranges are decided by `decide_region`, as in a run. When things happen is a model: the clock is
`slot_schedule`, the prices are `cost`, fitted to recorded runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import Costs
from airflow_abs.core.simulate.growth import Growth, Scenario
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion, RecordedResult
from airflow_abs.core.simulate.simulated_job import SimulatedJob, SimulatedRegion
from airflow_abs.core.simulate.slot_schedule import RegionSpan, RegionWork, schedule


def simulate(job: RecordedJob, costs: Costs, scenario: Scenario) -> SimulatedJob:
    """Decide and time every region of the job.

    Raises:
        InvalidValueError: the options contradict each other; `fixed` names no region with a source; slots are known
            neither from the recorded run nor from the options.
    """
    slots = _slots(job, scenario)
    growth = Growth(job, scenario)
    decisions = decide_all(job, growth)
    work = [region_work(region, decisions[region.name], costs, slots) for region in job.regions]
    spans = schedule(work, slots)
    airflow = costs.airflow
    regions = tuple(
        _simulated_region(
            region,
            decisions[region.name],
            growth.results(region),
            slots=slots,
            span=spans[region.name],
            slot_seconds=sum(map(sum, done.subtasks)),
            costs=costs,
            subtask_cpu=airflow.triggered_cpu if scenario.from_trigger else airflow.task_cpu,
        )
        for region, done in zip(job.regions, work, strict=True)
    )
    hops_around = 2 + any(region.own_tasks > 1 for region in regions)  # `plan`, all commits side by side, `release`
    wall = max(span.end for span in spans.values()) + hops_around * airflow.hops_around * costs.hop
    cpu = 2 * airflow.task_cpu + sum(region.airflow_cpu for region in regions)  # with `plan` and `release`
    return SimulatedJob(regions, slots, wall, cpu)


def decide_all(job: RecordedJob, growth: Growth) -> dict[str, RegionDecision]:
    """The decisions of all regions, by name: each from what those before it would have written."""
    decisions: dict[str, RegionDecision] = {}
    parallelism: dict[str, int] = {}
    for region in job.regions:
        inputs = growth.inputs(region, parallelism)
        decision = decide_region(region.name, inputs, growth.sources(region), growth.options(region))
        decisions[region.name], parallelism[region.name] = decision, decision.parallelism
    return decisions


def region_work(region: RecordedRegion, decision: RegionDecision, costs: Costs, slots: int) -> RegionWork:
    """What the region's subtasks have to do; every one of them also reads the broadcast inputs."""
    cost = costs.regions[region.name]
    spread = region.spread(decision, slots)
    tasks = [cost.spark_tasks(size, spread) for size in _bytes_by_subtask(decision)]
    return RegionWork(region.name, region.after, cost.delay, costs.interval, tasks)


def _slots(job: RecordedJob, scenario: Scenario) -> int:
    recorded = (region.options.slots for region in job.regions if region.options.slots)
    slots = scenario.options.slots or next(recorded, None)
    if slots is None:
        raise InvalidValueError(f"run {job.name}: its number of slots is not recorded; give the slots of the scenario")
    return slots


def _simulated_region(
    region: RecordedRegion,
    decision: RegionDecision,
    results: Sequence[RecordedResult],
    *,
    slots: int,
    span: RegionSpan,
    slot_seconds: float,
    costs: Costs,
    subtask_cpu: float,
) -> SimulatedRegion:
    subtasks = decision.parallelism
    largest = max(_bytes_by_subtask(decision))
    commits = any(result.is_sink for result in results)
    return SimulatedRegion(
        decision=decision,
        slots=slots,
        span=span,
        starting=costs.interval * (subtasks - 1),
        slot_seconds=slot_seconds,
        largest=largest,
        exchange_bytes=sum(result.bytes for result in results),
        xcom_bytes=xcom_bytes(results, subtasks),
        manifest_bytes=manifest_bytes(results, subtasks, region.spread(decision, slots).files(largest)),
        own_tasks=1 + commits,  # `decide` and `commit`
        airflow_cpu=(1 + subtasks) * subtask_cpu + commits * costs.airflow.task_cpu,
    )


def _bytes_by_subtask(decision: RegionDecision) -> Sequence[int]:
    """Broadcast inputs are read by every one."""
    return [subtask.bytes + decision.broadcast_bytes for subtask in decision.subtasks]


# JSON that a subtask leaves, in bytes: `exchange/records/reports.py` and `manifest.py`, to which a test holds them.
_XCOM, _XCOM_RESULT = 160, 30
_MANIFEST, _MANIFEST_RESULT, _MANIFEST_FILE = 200, 120, 240


def xcom_bytes(results: Sequence[RecordedResult], subtasks: int) -> int:
    """What one of the subtasks pushes: bytes per subpartition of each result."""
    return _XCOM + sum(
        _XCOM_RESULT + each.subpartitions * (_digits(each.bytes, subtasks * each.subpartitions) + 2) for each in results
    )


def manifest_bytes(results: Sequence[RecordedResult], subtasks: int, files: int) -> int:
    """The manifest of a subtask that wrote this many files of each result: bytes per subpartition of each file."""
    return _MANIFEST + sum(
        _MANIFEST_RESULT
        + each.name_bytes
        + files
        * (_MANIFEST_FILE + each.subpartitions * (_digits(each.bytes, subtasks * each.subpartitions * files) + 1))
        for each in results
    )


def _digits(total: int, cells: int) -> int:
    return len(str(total // cells))
