"""`decide`: from what the subtasks before it reported to a decision that is stored, and a slice for each subtask."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow_abs.core.decide.region_decision import decide_region
from airflow_abs.core.decide.region_inputs import RegionOptions
from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.pruning.pruning import Decisions, prune_source
from airflow_abs.exchange.records.decisions import StoredDecision, blocking_input
from airflow_abs.exchange.records.manifest import attempts_read
from airflow_abs.exchange.records.manifest_index import write_index
from airflow_abs.exchange.records.plan import PlannedInput, PlannedRegion, region_options
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.records.slices import cut_slices, write_slices
from airflow_abs.exchange.sources.planned_source import PlannedSource, vertex_of
from airflow_abs.exchange.sources.splits import ListedSource, leave_out, list_source
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.exchange.storage.whole_files import write_json

SubtaskReport = Mapping[str, Any]
"""What a subtask pushes as XCom: its index, and for each result the bytes per subpartition (per file for rescale)."""

ListSources = Callable[[PlannedRegion, Decisions], Mapping[str, ListedSource]]
"""From a region to what its sources hold today, by name: `list_sources`, or a caller that also asks tables."""


def decide_and_store(
    records: RunRecords,
    region: str,
    reports: Mapping[str, Sequence[SubtaskReport]],
    sources: ListSources,
    measured_at: float | None = None,
    max_map_length: int | None = None,
) -> StoredDecision:
    """Decide one region from what its producers reported and from its sources' files, and store the decision.

    Args:
        records: of the run.
        region: its name.
        reports: producer region to the reports of all its subtasks, in any order.
        sources: lists what the region reads from outside.
        measured_at: as in `StoredDecision`.
        max_map_length: how many subtasks can be mapped; None if that is no limit.

    Raises:
        ExchangeError: a report is missing; a source path matches nothing.
    """
    plan, folder = records.plan, records.folder
    planned = plan.region(region)
    ordered = {name: _in_order(region, name, found) for name, found in reports.items()}
    producers = {name: len(found) for name, found in ordered.items()}
    decisions = {name: _one_decision(region, name, found) for name, found in ordered.items()}
    listed = sources(planned, decisions)
    inputs = [blocking_input(entry, _bytes_by_partition(entry, ordered[entry.region])) for entry in planned.inputs]
    decision = decide_region(
        region,
        inputs,
        [each.as_input(name) for name, each in listed.items()],
        _within_map_length(region_options(plan, planned), max_map_length),
    )
    parts = [subtask.hot_part for subtask in decision.subtasks if subtask.hot_part]
    cut = {part.input for part in parts if part.share is not None}
    stored = StoredDecision(
        plan=plan.id,
        decision=decision,
        files={name: each.files for name, each in listed.items()},
        producers=producers,
        producer_decisions=decisions,
        measured={entry.name: entry.bytes_by_subpartition() for entry in inputs},
        measured_by_producer={
            entry.name: entry.bytes_by_partition
            for entry in inputs
            if (entry.name in planned.splittable and decision.hot_subpartitions) or entry.is_rescale
        },
        placements={
            entry.name: [report["results"][entry.result]["checksum"] for report in ordered[entry.region]]
            for entry in planned.inputs
            if entry.is_rescale
        },
        cut_attempts={
            entry.name: [report["attempt"] for report in ordered[entry.region]]
            for entry in planned.inputs
            if entry.name in cut
        },
        measured_at=measured_at,
        partitions_read={name: each.partitions_read for name, each in listed.items() if each.partitions_read},
        notes={name: each.note for name, each in listed.items() if each.note},
        guessed={name: each.size_from for name, each in listed.items() if each.size_from != "source"},
        inferred={name: each.parallelism for name, each in listed.items() if each.parallelism is not None},
        pruning={name: each.values for name, each in listed.items() if each.values},
        measured_attempts={
            name: attempts_read(records.manifests(name, decision=decisions[name]))
            for name in dict.fromkeys(_prune(planned, listed))
        },
    )
    write_index(records, region, stored.producers)
    write_slices(folder, region, cut_slices(stored))
    write_json(folder.decision_path(region), stored.to_json())
    return stored


def list_sources(
    records: RunRecords, open_path: Callable[[str], ExchangePath], region: PlannedRegion, before: Decisions
) -> dict[str, ListedSource]:
    """What a region's sources hold, by name: files as they are now, of tables what `plan` has fixed; without what the
    values leave out that the regions `before` wrote.

    Raises:
        ExchangeError: see `list_source`.
    """
    return {
        source.name: prune_source(records, region, source, _list(records, region.name, source, open_path), before)
        for source in region.sources
    }


def _list(
    records: RunRecords, region: str, source: PlannedSource, open_path: Callable[[str], ExchangePath]
) -> ListedSource:
    """The files as they are now; of a table those of the version that `plan` fixed, of an incremental source those that
    it took."""
    if source.files is None:
        return ListedSource(records.pinned(region, vertex_of(source.name)).files)
    if source.taken is not None:
        return leave_out(source.files, source.left_out, records.pinned(region, vertex_of(source.name)).files)
    return list_source(source.files, source.left_out, open_path)


def _within_map_length(options: RegionOptions, limit: int | None) -> RegionOptions:
    """A limit that cannot be reached is not recorded."""
    is_reached = limit is not None and max(options.max_parallelism, options.parallelism or 0) > limit
    return replace(options, max_map_length=limit) if is_reached else options


def _in_order(region: str, producer: str, reports: Sequence[SubtaskReport]) -> list[SubtaskReport]:
    ordered = sorted(reports, key=lambda report: int(report["index"]))
    found, expected = [report["index"] for report in ordered], int(ordered[0]["subtasks"]) if ordered else 0
    if not ordered or found != list(range(expected)):
        raise ExchangeError(
            f"{region}: expected reports of subtasks 0 to {expected - 1} of {producer}, found {found}; "
            f"clear the subtasks of {producer} that are missing"
        )
    return ordered


def _prune(region: PlannedRegion, listed: Mapping[str, ListedSource]) -> Iterator[str]:
    """The upstream regions whose values prune files."""
    regions = {entry.name: entry.region for entry in region.inputs}
    for source in region.sources:
        if listed[source.name].values:
            yield from (regions[by.input] for by in source.pruned_by)


def _one_decision(region: str, producer: str, reports: Sequence[SubtaskReport]) -> str:
    found = sorted({str(report["decision"]) for report in reports})
    if len(found) != 1:
        raise ExchangeError(
            f"{region}: the subtasks of {producer} ran under {len(found)} decisions ({', '.join(found)}), expected "
            f"one; clear all subtasks of {producer}"
        )
    return found[0]


def _bytes_by_partition(entry: PlannedInput, reports: Sequence[SubtaskReport]) -> list[list[int]]:
    sizes = "files" if entry.is_rescale else "bytes"
    return [list(report["results"][entry.result][sizes]) for report in reports]
