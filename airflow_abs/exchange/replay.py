"""Decide a finished run again, from what it recorded: with the same options, or with others.

What decided then is still there after a release: the splits' sizes in decision.json, the bytes per subpartition in
the manifests of the producers' subtasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from airflow_abs.core.explain import format_bytes
from airflow_abs.core.region_decision import BlockingInput, RegionDecision, SourceInput, decide_region
from airflow_abs.core.region_inputs import RegionOptions
from airflow_abs.exchange.errors import MissingFileError
from airflow_abs.exchange.plan import PlannedInput
from airflow_abs.exchange.run_view import RegionView, RunView, result_bytes


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
    """One region twice; `changed_inputs` says which inputs are no longer what they were when it was decided."""

    region: str
    recorded: RegionDecision
    again: RegionDecision
    changed_inputs: tuple[str, ...]

    @property
    def is_same(self) -> bool:
        """Every number, reason, clamp and range."""
        return self.recorded == self.again


def replay_run(run: RunView, options: ReplayOptions | None = None) -> list[Replayed]:
    """Decide every decided region of the run again, in order.

    Each region is decided from the bytes that its producers really wrote: another fan-out of a producer leaves them
    as they are, up to what a Parquet file costs in itself.

    Raises:
        MissingFileError: a subtask of a producer left no manifest.
        InvalidValueError: the options contradict each other.
    """
    chosen = options or ReplayOptions()
    return [_replay(run, region, region.decision, chosen) for region in run.regions if region.decision is not None]


def _replay(run: RunView, region: RegionView, recorded: RegionDecision, options: ReplayOptions) -> Replayed:
    inputs = [_blocking_input(run, region, entry) for entry in region.planned.inputs]
    files: Mapping[str, Any] = region.stored.files if region.stored else {}
    sources = [SourceInput(name, [file.bytes for file in listed]) for name, listed in files.items()]
    again = decide_region(region.name, inputs, sources, options.applied_to(recorded.options))
    now = {entry.name: entry.bytes for entry in again.inputs}
    changed = tuple(
        f"{entry.name}: {format_bytes(entry.bytes)} when it was decided, {format_bytes(now[entry.name])} now "
        f"({now[entry.name] - entry.bytes:+d} bytes); a subtask before it has run again since"
        for entry in recorded.inputs
        if now[entry.name] != entry.bytes
    )
    return Replayed(region.name, recorded, again, changed)


def _blocking_input(run: RunView, region: RegionView, entry: PlannedInput) -> BlockingInput:
    producer = run.region(entry.region)
    expected = region.stored.producers[entry.region] if region.stored else 0
    missing = [index for index in range(expected) if index not in producer.manifests]
    if missing:
        raise MissingFileError(
            f"{region.name}: {len(missing)} of {expected} subtasks of {entry.region} left no manifest (first: "
            f"{entry.region}[{missing[0]}]), so what {region.name} was decided from is not known any more; "
            "replay needs a run whose subtasks before that region have all committed"
        )
    return BlockingInput(entry.name, entry.partitioning, result_bytes(producer, entry.result)[:expected])
