"""How many slots a stream wants, and whether the available ones are enough to start, or worth a restart.

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
    """With `desired` it starts at once, with at least `sufficient` once they are stable. More than the desired ones are
    used only if it `takes_all`."""

    desired: int = 1
    sufficient: int = 1
    takes_all: bool = False

    def __post_init__(self) -> None:
        check_int("sufficient", self.sufficient, at_least=1, at_most=self.desired)

    @classmethod
    def of(cls, desired: int | None, sufficient: int) -> SlotsWanted:
        """As declared. Without `desired` a stream takes all that there are, and starts at once with as many as it is
        likely to find: 1.5 times the sufficient ones as a power of two, within 128..32768. Flink's reactive mode does
        not exceed that number, which is that of its key groups; a stream of Spark has none.
        """
        if desired:
            return cls(desired, sufficient)
        check_int("sufficient", sufficient, at_least=1, at_most=_MOST_DESIRED)
        likely = power_of_two_from(sufficient + sufficient // 2)
        return cls(min(max(likely, _LEAST_DESIRED), _MOST_DESIRED), sufficient, takes_all=True)

    def parallelism(self, slots: int) -> int | None:
        """How many of these slots it uses; None if they are not sufficient."""
        check_int("slots", slots, at_least=0)
        if slots < self.sufficient:
            return None
        return slots if self.takes_all else min(slots, self.desired)

    def judge(self, slots: int) -> Resources:
        """Whether these slots are enough to start."""
        if self.parallelism(slots) is None:
            return Resources.INSUFFICIENT
        return Resources.DESIRED if slots >= self.desired else Resources.SUFFICIENT

    def judge_change(self, running: int, slots: int, min_increase: int) -> Resources:
        """Whether these slots are worth a restart of a stream that runs on `running`; INSUFFICIENT if not.

        All that are wanted are worth it if they change anything; fewer are if they are at least `min_increase` more, or
        if it must shrink; a stream that takes all never has all that it wants. With less than the sufficient ones it
        runs on as it is: Spark's tasks wait for each other.
        """
        possible = self.parallelism(slots)
        resources = Resources.SUFFICIENT if self.takes_all else self.judge(slots)
        if possible is None:
            return Resources.INSUFFICIENT
        controller: RescaleController = EnforceMinimalIncrease(min_increase)
        if resources is Resources.DESIRED:
            controller = EnforceParallelismChange()
        return (
            resources if controller.should_rescale({_STREAM: running}, {_STREAM: possible}) else Resources.INSUFFICIENT
        )
