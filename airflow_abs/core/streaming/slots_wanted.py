"""How many slots a stream wants, and what the slots that it finds are worth: before it starts, and while it runs.

A stream is one region, so one slot sharing group with one vertex: a slot runs one Spark task at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_abs.core.checks import check_int
from airflow_abs.core.decide.parallelism import power_of_two_from
from airflow_abs.core.slots.resource_wait import Resources
from airflow_abs.core.streaming.rescale import EnforceMinimalIncrease, EnforceParallelismChange, RescaleController

_STREAM = "stream"
_LEAST_DESIRED, _MOST_DESIRED = 128, 32768


@dataclass(frozen=True, slots=True)
class SlotsWanted:
    """With `desired` it starts at once, and more are not used; with at least `sufficient` once they are stable."""

    desired: int = 1
    sufficient: int = 1

    def __post_init__(self) -> None:
        check_int("sufficient", self.sufficient, at_least=1, at_most=self.desired)

    @classmethod
    def of(cls, desired: int | None, sufficient: int) -> SlotsWanted:
        """As declared. Without `desired` a stream wants all that it is likely to find, as in Flink's reactive mode:
        1.5 times the sufficient ones as a power of two, within 128..32768.
        """
        if desired:
            return cls(desired, sufficient)
        check_int("sufficient", sufficient, at_least=1, at_most=_MOST_DESIRED)
        likely = power_of_two_from(sufficient + sufficient // 2)
        return cls(min(max(likely, _LEAST_DESIRED), _MOST_DESIRED), sufficient)

    def parallelism(self, slots: int) -> int | None:
        """With how many of these slots it runs; None if they are not sufficient."""
        check_int("slots", slots, at_least=0)
        return min(slots, self.desired) if slots >= self.sufficient else None

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
