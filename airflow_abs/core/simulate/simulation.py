"""What a recorded run would be with more bytes, or other settings: fan-out, waves, seconds, exchange.

Numbers and ranges are decided by `decide_region`, from the recorded bytes times a factor. When things happen is a
model (`slot_schedule`, `simulated_cost`), fitted to the recorded runs (`simulated_fit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_decision import BlockingInput, RegionDecision, SourceInput, decide_region
from airflow_abs.core.decide.replay_options import ReplayOptions
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import Costs
from airflow_abs.core.simulate.record_sizes import manifest_bytes, xcom_bytes
from airflow_abs.core.simulate.recorded_job import RecordedJob, RecordedRegion, RecordedResult
from airflow_abs.core.simulate.scaled_bytes import grow_files, regrid, respread_files, scale_size, spread_over_producers
from airflow_abs.core.simulate.slot_schedule import RegionSpan, RegionWork, schedule
from airflow_abs.core.wording import format_bytes


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is other than in the recorded run.

    Args:
        factor: of the bytes of all sources but those of the vertices in `fixed`.
        options: to decide by; `max_parallelism` is also the number of subpartitions.
        file_bytes: files of a source are of at most this size; None: as recorded.
        from_trigger: subtasks run in the triggerer alone.
    """

    factor: float = 1.0
    options: ReplayOptions = field(default_factory=ReplayOptions)
    fixed: frozenset[str] = frozenset()
    file_bytes: int | None = None
    from_trigger: bool = False


@dataclass(frozen=True, slots=True)
class SimulatedRegion:
    """One region. `exchange_bytes` are all that it writes, sinks included; `largest` is what the largest subtask reads,
    broadcast inputs included. `xcom_bytes` and `manifest_bytes` are of one subtask, `slot_seconds` of all.
    `own_tasks` are the tasks besides the subtasks; `starting` are the seconds in which Airflow starts all of those.
    """

    decision: RegionDecision
    slots: int
    span: RegionSpan
    starting: float
    slot_seconds: float
    largest: int
    exchange_bytes: int
    xcom_bytes: int
    manifest_bytes: int
    own_tasks: int
    airflow_cpu: float

    @property
    def name(self) -> str:
        return self.decision.region

    @property
    def waves(self) -> int:
        """Subtasks over slots, rounded up."""
        return divide_up(self.decision.parallelism, self.slots)

    @property
    def bytes_in(self) -> int:
        """All inputs, each once."""
        return sum(entry.bytes for entry in self.decision.inputs)


@dataclass(frozen=True, slots=True)
class SimulatedJob:
    """All regions, in order; `wall` are seconds from Airflow's start of the run to its end, if the job is all of it."""

    regions: tuple[SimulatedRegion, ...]
    slots: int
    wall: float
    airflow_cpu: float

    @property
    def task_instances(self) -> int:
        """With `plan` and `release`."""
        return 2 + self.subtasks + sum(region.own_tasks for region in self.regions)

    @property
    def subtasks(self) -> int:
        return sum(region.decision.parallelism for region in self.regions)

    @property
    def exchange_bytes(self) -> int:
        """Written in one run, and held until its release."""
        return sum(region.exchange_bytes for region in self.regions)

    @property
    def source_bytes(self) -> int:
        return sum(entry.bytes for region in self.regions for entry in region.decision.inputs if entry.kind == "source")

    @property
    def slot_seconds(self) -> float:
        """Work of all subtasks on Spark."""
        return sum(region.slot_seconds for region in self.regions)

    @property
    def xcom_bytes(self) -> int:
        """In Airflow's database, for as long as it keeps the run."""
        return sum(region.xcom_bytes * region.decision.parallelism for region in self.regions)

    @property
    def manifest_bytes(self) -> int:
        return sum(region.manifest_bytes * region.decision.parallelism for region in self.regions)

    @property
    def most_subtasks_at_once(self) -> int:
        """That run or wait for a slot: what the triggerers must hold."""
        return max(
            sum(
                other.decision.parallelism
                for other in self.regions
                if other.span.start <= at.span.start < other.span.end
            )
            for at in self.regions
        )

    @property
    def airflow_wall(self) -> float:
        """Seconds in which no subtask runs."""
        busy, until = 0.0, 0.0
        for region in sorted(self.regions, key=lambda region: region.span.start):
            busy += max(0.0, region.span.end - max(until, region.span.start))
            until = max(until, region.span.end)
        return self.wall - busy


def factor_for(job: RecordedJob, source_bytes: int, fixed: frozenset[str] = frozenset()) -> float:
    """The factor with which a run reads so many bytes of files.

    Raises:
        InvalidValueError: what does not grow is more than that already, or nothing grows.
    """
    growing = sum(region.source_bytes for region in job.regions if region.name not in fixed)
    staying = sum(region.source_bytes for region in job.regions if region.name in fixed)
    if not growing or source_bytes < staying:
        raise InvalidValueError(
            f"run {job.name}: cannot read {format_bytes(source_bytes)} of files; {format_bytes(staying)} of them stay "
            f"as they are, {format_bytes(growing)} grow"
        )
    return (source_bytes - staying) / growing


def simulate(job: RecordedJob, costs: Costs, scenario: Scenario) -> SimulatedJob:
    """Decide and time every region of the job.

    Raises:
        InvalidValueError: the options contradict each other; `fixed` names no region with a source; slots are known
            neither from the recorded run nor from the options.
    """
    slots = scenario.options.slots or next((r.options.slots for r in job.regions if r.options.slots), None)
    if slots is None:
        raise InvalidValueError(f"run {job.name}: it does not say how many slots it had; say how many there are")
    decisions, factors = decide_all(job, scenario), _factors(job, scenario)
    work = [region_work(region, decisions[region.name], costs, slots) for region in job.regions]
    spans = schedule(work, slots)
    subtask_cpu = costs.airflow.triggered_cpu if scenario.from_trigger else costs.airflow.task_cpu
    regions = []
    for region, done in zip(job.regions, work, strict=True):
        decision = decisions[region.name]
        results = [_grown_result(result, factors[region.name], scenario) for result in region.results]
        largest = max(_bytes_by_subtask(decision))
        files = region.spread(decision, slots).files(largest)
        commits = any(result.is_sink for result in results)
        regions.append(
            SimulatedRegion(
                decision=decision,
                slots=slots,
                span=spans[region.name],
                starting=costs.interval * (decision.parallelism - 1),
                slot_seconds=sum(map(sum, done.subtasks)),
                largest=largest,
                exchange_bytes=sum(result.bytes for result in results),
                xcom_bytes=xcom_bytes(results, decision.parallelism),
                manifest_bytes=manifest_bytes(results, decision.parallelism, files),
                own_tasks=1 + commits,
                airflow_cpu=commits * costs.airflow.task_cpu
                + (1 + decision.parallelism) * subtask_cpu,  # with `decide`
            )
        )
    around = 2 + any(region.own_tasks > 1 for region in regions)  # `plan`, all commits side by side, `release`
    wall = max(span.end for span in spans.values()) + around * costs.airflow.hops_around * costs.hop
    cpu = 2 * costs.airflow.task_cpu + sum(region.airflow_cpu for region in regions)
    return SimulatedJob(tuple(regions), slots, wall, cpu)


def decide_all(job: RecordedJob, scenario: Scenario) -> dict[str, RegionDecision]:
    """The decisions of all regions, by name: each from what those before it would have written."""
    factors = _factors(job, scenario)
    decisions: dict[str, RegionDecision] = {}
    for region in job.regions:
        options = scenario.options.applied_to(region.options)
        inputs = [_grown_input(entry, region, factors, decisions, scenario) for entry in region.inputs]
        sources = [
            SourceInput(source.name, grow_files(source.split_bytes, factors[region.name], scenario.file_bytes))
            for source in region.sources
        ]
        decisions[region.name] = decide_region(region.name, inputs, sources, options)
    return decisions


def region_work(region: RecordedRegion, decision: RegionDecision, costs: Costs, slots: int) -> RegionWork:
    """What the region's subtasks have to do; every one of them also reads the broadcast inputs."""
    cost = costs.regions[region.name]
    spread = region.spread(decision, slots)
    tasks = [cost.spark_tasks(size, spread) for size in _bytes_by_subtask(decision)]
    return RegionWork(region.name, region.after, cost.delay, costs.interval, tasks)


def _grown_result(result: RecordedResult, factor: float, scenario: Scenario) -> RecordedResult:
    count = scenario.options.max_parallelism
    subpartitions = count if count and result.subpartitions > 1 else result.subpartitions
    return replace(result, bytes=scale_size(result.bytes, factor), subpartitions=subpartitions)


def _bytes_by_subtask(decision: RegionDecision) -> Sequence[int]:
    """Broadcast inputs are read by every one."""
    return [subtask.bytes + decision.broadcast_bytes for subtask in decision.subtasks]


def _factors(job: RecordedJob, scenario: Scenario) -> Mapping[str, float]:
    """By region: what it reads and writes grows if a source of it grows, or what is not broadcast to it."""
    named = {region.name for region in job.regions if region.sources}
    if unknown := scenario.fixed - named:
        raise InvalidValueError(
            f"run {job.name}: {', '.join(sorted(unknown))} reads no files; expected some of {', '.join(sorted(named))}"
        )
    factors: dict[str, float] = {}
    for region in job.regions:
        spread = [entry for entry in region.inputs if not entry.is_broadcast]
        found = [factors[region.producers[entry.name]] for entry in spread or region.inputs]
        own = [1.0 if region.name in scenario.fixed else scenario.factor] if region.sources else []
        factors[region.name] = max([*own, *found], key=lambda factor: abs(factor - 1.0), default=1.0)
    return factors


def _grown_input(
    entry: BlockingInput,
    region: RecordedRegion,
    factors: Mapping[str, float],
    decisions: Mapping[str, RegionDecision],
    scenario: Scenario,
) -> BlockingInput:
    producer = region.producers[entry.name]
    rows = [[scale_size(size, factors[producer]) for size in row] for row in entry.bytes_by_partition]
    producers = decisions[producer].parallelism
    if entry.is_rescale:
        return BlockingInput(entry.name, entry.partitioning, respread_files(rows, producers))
    count = entry.subpartitions if entry.is_broadcast else scenario.options.max_parallelism or entry.subpartitions
    if (producers, count) != (len(rows), entry.subpartitions):
        totals = regrid(list(map(sum, zip(*rows, strict=True))), count)
        if entry.name in region.options.splittable:
            rows = spread_over_producers(totals, producers)
        else:  # only sums decide, as in a replay
            rows = [totals, *[[0] * count] * (producers - 1)]
    return BlockingInput(entry.name, entry.partitioning, rows)
