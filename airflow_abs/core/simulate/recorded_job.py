"""A finished run as the simulation takes it: what every region was decided from, what it wrote, when it ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.decide.region_inputs import BlockingInput, RegionOptions, SourceInput
from airflow_abs.core.decide.spark_tasks import runs_on_one_core
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.core.simulate.cost import Spread
from airflow_abs.core.simulate.slot_schedule import RegionSpan


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """What all subtasks of a region wrote as one result. `name_bytes` are those of its name and schema."""

    name: str
    bytes: int
    subpartitions: int
    is_sink: bool = False
    name_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RecordedRegion:
    """One region: what `decide_region` was given, and what came of it.

    Args:
        producers: the region that each blocking input comes from, by the input's name.
        shuffles: whether its plan shuffles, so that with enough subtasks each has one slot.
        starts: of its subtasks, in seconds since the start of `plan`; () if unknown.
        seconds: of its subtasks, in the same order; () likewise.
    """

    decision: RegionDecision
    inputs: tuple[BlockingInput, ...]
    sources: tuple[SourceInput, ...]
    producers: Mapping[str, str]
    results: tuple[RecordedResult, ...]
    shuffles: bool
    starts: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()

    @property
    def name(self) -> str:
        return self.decision.region

    @property
    def options(self) -> RegionOptions:
        return self.decision.options

    @property
    def after(self) -> tuple[str, ...]:
        """The regions before it."""
        return tuple(sorted(set(self.producers.values())))

    @property
    def source_bytes(self) -> int:
        return sum(sum(source.split_bytes) for source in self.sources)

    @property
    def end(self) -> float:
        """Of its last subtask."""
        return max(start + seconds for start, seconds in zip(self.starts, self.seconds, strict=True))

    def spread(self, decision: RegionDecision, slots: int) -> Spread:
        """How wide its subtasks run, as `spark/run/subtask_spec.py` asks Spark for it."""
        own = divide_up(slots, decision.parallelism)
        alone = runs_on_one_core(decision.parallelism, slots, decision.largest_bytes)
        reads_source = bool(self.sources)
        coalesced = self.shuffles and not reads_source and alone
        return Spread(own, shuffles=self.shuffles, coalesced=coalesced, reads_source=reads_source)


@dataclass(frozen=True)
class RecordedJob:
    """Regions in topological order."""

    name: str
    regions: tuple[RecordedRegion, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for region in self.regions:
            if missing := set(region.after) - seen:
                raise InvalidValueError(
                    f"run {self.name}: region {region.name!r} reads {', '.join(sorted(missing))}; expected its "
                    "producers before it"
                )
            seen.add(region.name)

    @cached_property
    def spans(self) -> Mapping[str, RegionSpan]:
        """When each region really ran; without regions whose times are unknown."""
        spans: dict[str, RegionSpan] = {}
        for region in self.regions:
            if region.starts and all(name in spans for name in region.after):
                ready = max((spans[name].end for name in region.after), default=0.0)
                spans[region.name] = RegionSpan(ready, min(region.starts), region.end)
        return spans
