"""Decide a finished run again, from what it recorded: with the same options, or with others.

What a decision rested on stands beside it in decision.json: the sizes of the splits, and the bytes per subpartition
that its producers had written by then, whatever they have written since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_abs.core.decide.region_decision import RegionDecision, decide_region
from airflow_abs.core.simulate.replay_options import ReplayOptions
from airflow_abs.exchange.records.decisions import StoredDecision
from airflow_abs.exchange.records.plan import PlannedInput
from airflow_abs.exchange.runs.run_view import RunView


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
    inputs = [stored.as_measured(entry) for entry in planned]
    again = decide_region(recorded.region, inputs, stored.as_listed(), options.applied_to(recorded.options))
    return Replayed(recorded.region, recorded, again)
