"""A run that is over, as the job's history keeps it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from airflow_abs.core.durability.prediction import SAMPLED, PassedHistory, RegionHistory, RunHistory
from airflow_abs.exchange.records.tries import TryRecord, read_try
from airflow_abs.exchange.runs.run_view import RegionView, RunView, SubtaskView
from airflow_abs.exchange.sources.planned_source import vertex_of


def past_run(run: RunView, date: str, now: float, is_mistake: Callable[[str], bool]) -> RunHistory:
    """How every region that was decided ended.

    Args:
        run: read whole, before its data is deleted.
        date: its logical date.
        now: epoch seconds, in case the run's start is unknown.
        is_mistake: whether an error of this type would happen again.
    """
    decided = [region for region in run.regions if region.decision is not None]
    return RunHistory(
        began=now if run.plan.began is None else run.plan.began,
        regions=tuple(_past_region(run, region, is_mistake) for region in decided),
        run_id=run.folder.run_id,
        date=date,
        source_bytes={
            vertex_of(edge.name): edge.bytes or 0
            for region in decided
            for edge in region.edges
            if edge.kind == "source" and edge.name not in _guessed(region)
        },
        partial_shares=_partial_shares(decided),
        passed={
            edge.producer: PassedHistory(passed.rows, passed.bytes, passed.partial_results)
            for region in decided
            for edge in region.inside
            if (passed := region.passed_inside(edge)) is not None
        },
        spent={vertex: seconds for region in decided for vertex, seconds in region.spent.items()},
    )


LEAST_COMBINED = 100_000
"""Fewer rows say little about how often groups repeat, and cost little either way."""


def _partial_shares(regions: Sequence[RegionView]) -> dict[str, float]:
    """Of vertices that wrote partial results, and as sampled of those that might have."""
    subtasks = [each for region in regions for each in region.subtasks if each.is_committed]
    sampled = _shares([each.sampled for each in subtasks], LEAST_COMBINED // SAMPLED)
    return sampled | _shares([each.combined for each in subtasks], LEAST_COMBINED)


def _shares(counted: Iterable[Mapping[str, tuple[int, int]]], least: int) -> dict[str, float]:
    rows, results = Counter[str](), Counter[str]()
    for vertex, (combined, written) in (entry for each in counted for entry in each.items()):
        rows[vertex] += combined
        results[vertex] += written
    return {vertex: round(results[vertex] / count, 4) for vertex, count in rows.items() if count >= least}


def _guessed(region: RegionView) -> set[str]:
    """Sources of unknown size: a guess is nothing to remember."""
    return {entry.name for entry in region.decision.inputs if entry.size_from} if region.decision is not None else set()


def _past_region(run: RunView, region: RegionView, is_mistake: Callable[[str], bool]) -> RegionHistory:
    committed = [subtask for subtask in region.subtasks if subtask.is_committed]
    predicted = run.plan.prediction_of(region.name)
    mistakes = [is_mistake(record.error) for record in _failed_tries(run, region)]
    return RegionHistory(
        regions=run.plan.declared_regions(region.name),
        bytes_in=region.bytes_in or 0,
        bytes_out=sum(subtask.bytes_out or 0 for subtask in committed),
        rows=sum(subtask.rows or 0 for subtask in committed),
        seconds=region.took if region.took is not None else _spread_evenly(committed, run.plan.slots or 1),
        machine_failures=mistakes.count(False),
        data_failures=mistakes.count(True),
        predicted_seconds=predicted.seconds if predicted else None,
        predicted_output_bytes=predicted.output_bytes if predicted else None,
        is_whole=len(committed) == len(region.subtasks),
        columns=run.plan.region(region.name).digest_columns(),
    )


def _spread_evenly(committed: Sequence[SubtaskView], slots: int) -> float:
    """After a recomputation the start of a subtask is unknown: as long as all of them take on all slots."""
    return round(sum(each.seconds or 0.0 for each in committed) / min(slots, len(committed) or 1), 3)


def _failed_tries(run: RunView, region: RegionView) -> Iterator[TryRecord]:
    """Those of subtasks whose first attempt did not commit: where it did, nothing was lost, and nothing is read.

    A try that is `running` although the run is over was killed.
    """
    for subtask in region.subtasks:
        if subtask.is_committed and subtask.attempt == 1:
            continue
        number = 1
        while (record := read_try(run.folder, region.name, subtask.index, number)) is not None:
            if record.state != "committed":
                yield record
            number += 1
