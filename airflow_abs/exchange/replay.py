"""Decide a finished run again, from what it recorded: with the same options, or with others.

What a decision rested on stands beside it in decision.json: the sizes of the splits, and the bytes per subpartition
that its producers had written by then, whatever they have written since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_abs.core.region_decision import BlockingInput, RegionDecision, SourceInput, decide_region
from airflow_abs.core.region_inputs import RegionOptions
from airflow_abs.exchange.decisions import StoredDecision
from airflow_abs.exchange.plan import PlannedInput
from airflow_abs.exchange.run_view import RunView


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What to decide by instead; None keeps what was recorded.

    A `max_parallelism` above the number of subpartitions that were written has no effect on ranges.
    """

    target_bytes: int | None = None
    min_parallelism: int | None = None
    max_parallelism: int | None = None
    strategy: str | None = None

    def applied_to(self, recorded: RegionOptions) -> RegionOptions:
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        options = replace(recorded, **{**chosen, "min_parallelism": 1})
        least = self.min_parallelism or recorded.min_parallelism
        return replace(options, min_parallelism=min(least, options.max_parallelism))


@dataclass(frozen=True, slots=True)
class Replayed:
    """One region twice."""

    region: str
    recorded: RegionDecision
    again: RegionDecision

    @property
    def is_same(self) -> bool:
        """Every number, reason, clamp and range."""
        return self.recorded == self.again


def replay_run(run: RunView, options: ReplayOptions | None = None) -> list[Replayed]:
    """Decide every decided region of the run again, in order.

    Each region is decided from the bytes that its producers really wrote: another fan-out of a producer leaves them
    as they are, up to what a Parquet file costs in itself.

    Raises:
        InvalidValueError: the options contradict each other.
    """
    chosen = options or ReplayOptions()
    return [_replay(region.stored, region.planned.inputs, chosen) for region in run.regions if region.stored]


def _replay(stored: StoredDecision, planned: Sequence[PlannedInput], options: ReplayOptions) -> Replayed:
    recorded = stored.decision
    inputs = [_as_measured(stored, entry) for entry in planned]
    sources = [SourceInput(name, [file.bytes for file in listed]) for name, listed in stored.files.items()]
    again = decide_region(recorded.region, inputs, sources, options.applied_to(recorded.options))
    return Replayed(recorded.region, recorded, again)


def _as_measured(stored: StoredDecision, entry: PlannedInput) -> BlockingInput:
    """Where only sums over the producer's subtasks decide, only they are recorded, and stand for the first one here."""
    if rows := stored.measured_by_producer.get(entry.name):
        return BlockingInput(entry.name, entry.partitioning, rows)
    sizes = stored.measured[entry.name]
    nothing = [0] * len(sizes)
    return BlockingInput(entry.name, entry.partitioning, [sizes, *[nothing] * (stored.producers[entry.region] - 1)])
