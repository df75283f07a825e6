"""What a simulation tells of a job: by region, and added up."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.decide.parallelism import divide_up
from airflow_abs.core.decide.region_decision import RegionDecision
from airflow_abs.core.simulate.slot_schedule import RegionSpan


@dataclass(frozen=True, slots=True)
class SimulatedRegion:
    """One region. `exchange_bytes` are all that it writes, sinks included; `largest` is what the largest subtask reads,
    broadcast inputs included. `xcom_bytes` and `manifest_bytes` are of one subtask, `slot_seconds` of all.
    `own_tasks` are the tasks other than subtasks; `starting` are the seconds in which Airflow starts all subtasks.
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
