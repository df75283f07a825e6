"""How many slots a stream wants, and what those that there are mean to it: before it starts, and while it runs.

A stream is one region, so one slot sharing group with one vertex: a slot runs one Spark task at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.rescale import EnforceMinimalIncrease, EnforceParallelismChange, RescaleController
from airflow_abs.core.streaming.slot_parallelism import ReactiveParallelism, VertexDemand, decide_slot_parallelism

_STREAM = "stream"


@dataclass(frozen=True, slots=True)
class SlotsWanted:
    """With `desired` it starts at once, and more are not used; with at least `sufficient` once they are stable."""

    desired: int = 1
    sufficient: int = 1

    def __post_init__(self) -> None:
        check_int("sufficient", self.sufficient, at_least=1, at_most=self.desired)

    @classmethod
    def of(cls, desired: int | None, sufficient: int) -> SlotsWanted:
        """As declared; without `desired` it takes all that there are, Flink's reactive mode."""
        return cls(desired or ReactiveParallelism.of(sufficient, None).parallelism, sufficient)

    def parallelism(self, slots: int) -> int | None:
        """With how many of these slots it runs; None if they are not sufficient."""
        demand = VertexDemand(_STREAM, self.sufficient, self.desired)
        granted = decide_slot_parallelism({_STREAM: [demand]}, slots).parallelism
        return None if granted is None else granted[_STREAM]

    def judge(self, slots: int) -> Resources:
        """What these slots are to a stream that is to start."""
        if self.parallelism(slots) is None:
            return Resources.INSUFFICIENT
        return Resources.DESIRED if slots >= self.desired else Resources.SUFFICIENT

    def judge_change(self, running: int, slots: int, min_increase: int) -> Resources:
        """What these slots are to one that runs with `running`: INSUFFICIENT if they are not worth a restart.

        All that are wanted are worth it if they change anything; fewer are if they are at least `min_increase` more,
        or if it must shrink. With less than the sufficient ones it runs on as it is: Spark's tasks wait for each other.
        """
        possible, resources = self.parallelism(slots), self.judge(slots)
        if possible is None:
            return Resources.INSUFFICIENT
        controller: RescaleController = EnforceMinimalIncrease(min_increase)
        if resources is Resources.DESIRED:
            controller = EnforceParallelismChange()
        return (
            resources if controller.should_rescale({_STREAM: running}, {_STREAM: possible}) else Resources.INSUFFICIENT
        )
