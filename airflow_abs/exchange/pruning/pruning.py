"""Dynamic partition pruning (FLIP-248): a source is read where it can have a value that another vertex has found today.

The vertex runs before, and its subtasks wrote the values into the exchange. Files that cannot hold one of them are left
out before bytes are counted. It is never more than a guess at what need not be opened: rows are compared with the
values one by one, too (`airflow_abs.spark.compile.pruned_sources`), so that the result is the same however rows are
laid out in files, and whatever is known of those.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from airflow_abs.core.pruning.value_ranges import Span, ValueRanges
from airflow_abs.core.wording import format_bytes, format_count
from airflow_abs.exchange.errors import ExchangeUnreachableError, StoredFileError
from airflow_abs.exchange.pruning.column_values import read_column_values
from airflow_abs.exchange.records.plan import PlannedRegion
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.sources.partitions import span_in_folders
from airflow_abs.exchange.sources.planned_source import PlannedSource, vertex_of
from airflow_abs.exchange.sources.pruned_by import PrunedBy, pruning_kind
from airflow_abs.exchange.sources.splits import ListedSource

log = logging.getLogger(__name__)


Decisions = Mapping[str, str]
"""By region before one, the digest of the decision under which its subtasks wrote."""


def prune_source(
    records: RunRecords, region: PlannedRegion, source: PlannedSource, listed: ListedSource, before: Decisions
) -> ListedSource:
    """The files of a source that may hold a row with values of all columns that it is pruned by.

    Where the values cannot be read (a file of theirs was lost; the subtasks will bring it back), nothing is left out.
    """
    if not source.pruned_by:
        return listed
    by = " and ".join(str(each.values) for each in source.pruned_by)
    try:
        values = {each.column: _read(records, region, each, before) for each in source.pruned_by}
    except (StoredFileError, ExchangeUnreachableError) as error:
        log.warning("source %s is not pruned by %s: %s", source.name, by, error)
        return replace(listed, note=f"not pruned by {by}, whose values cannot be read now")
    for each in source.pruned_by:
        log.info("source %s: %s of %s", source.name, _describe(values[each.column]), each.values)
    kept = list(range(len(listed.files)))
    for column, ranges in values.items():
        may_hold = ranges.may_hold(_spans(records, region.name, source, listed, column))
        kept = [number for number in kept if may_hold[number]]
    files = [listed.files[number] for number in kept]
    size, whole = (sum(file.bytes for file in each) for each in (files, listed.files))
    note = (
        f"{len(files):,} of {format_count(len(listed.files), 'file')}, {format_bytes(size)} of {format_bytes(whole)} "
        f"left by {by}"
    )
    log.info("source %s: %s", source.name, note)
    found = {column: ranges.ranges for column, ranges in values.items()}
    return replace(listed, files=files, note=note, values=found)


def _read(records: RunRecords, region: PlannedRegion, by: PrunedBy, before: Decisions) -> ValueRanges:
    entry = next(each for each in region.inputs if each.name == by.input)
    manifests = records.manifests(entry.region, decision=before[entry.region])
    return read_column_values(records.folder, manifests, entry.result, by.values.column)


def _spans(
    records: RunRecords, region: str, source: PlannedSource, listed: ListedSource, column: str
) -> Sequence[Span | None]:
    """What is known of a column in each file: of tables `plan` has asked, of files their folders say it."""
    if source.files is None:
        return records.pinned(region, vertex_of(source.name)).spans.get(column, [None] * len(listed.files))
    kind = pruning_kind(source.type_of(column)) or ""
    return [span_in_folders(source.files, file.path, column, kind) for file in listed.files]


def _describe(values: ValueRanges) -> str:
    if values.values is None:
        return "between the least and the greatest value"
    ranges = "" if values.values == len(values.ranges) else f", as {format_count(len(values.ranges), 'range')},"
    return f"{format_count(values.values, 'value')}{ranges}"
