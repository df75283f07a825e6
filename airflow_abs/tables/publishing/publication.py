"""Publishing sinks: what all subtasks of a region wrote becomes the run's rows in each, by the sink's own kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.incremental.new_files import begin_publication, end_publication
from airflow_abs.exchange.publish.publication import Publication, publish
from airflow_abs.exchange.publish.record import StagedFile, digest_of, partition_of, staged_files
from airflow_abs.exchange.records.plan import PlannedSink
from airflow_abs.exchange.records.run_records import RunRecords
from airflow_abs.exchange.results.partitions_read import check_partitions_read
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.kinds import check_declared, class_of
from airflow_abs.tables.sink import Published, RunFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_abs.exchange.publish.publisher import Publisher
    from airflow_abs.exchange.publish.target_table import TargetTable


def publish_region(
    records: RunRecords, region: str, access: TableAccess, declared: Collection[str]
) -> dict[str, dict[str, Any]]:
    """Publish all sinks of a region; files of incremental sources that they rest on count as read by that, and not
    before. A repetition changes nothing.

    Args:
        records: of the run; what they hold of the region is published, whatever has changed since they were read.
        region: whose.
        access: as in `TableSink.publish`.
        declared: the kinds of table that the DAG has.

    Returns:
        by vertex as `publish_sink`.

    Raises:
        ExchangeError: see `publish_sink`, `begin_publication`.
    """
    folder, plan = records.folder, records.plan
    taken = [source for each in plan.regions for source in each.sources if source.taken is not None]
    published = {}
    for sink in plan.region(region).sinks:
        rests_on = [source for source in taken if source.taken is not None and sink.vertex in source.taken.sinks]
        for source in rests_on:
            begin_publication(folder, source, access.open_path)
        published[sink.vertex] = publish_sink(records, region, sink, access, declared)
        for source in rests_on:
            end_publication(folder, source, sink.vertex)
    return published


def publish_sink(
    records: RunRecords, region: str, sink: PlannedSink, access: TableAccess, declared: Collection[str]
) -> dict[str, Any]:
    """Publish what all subtasks of the region's decision wrote for one sink; a repetition changes nothing.

    Args:
        sink: as planned.
        records, region, access, declared: as in `publish_region`.

    Returns:
        the `Publication` as plain values, and the `details` of a table's kind.

    Raises:
        MissingFileError: a subtask has not committed, or a file that it wrote is gone.
        CommitError, CommitConflictError, TableError: see `publish`, `check_declared`, `publish_staged`,
            `check_partitions_read`.
    """
    if sink.table is not None:
        check_declared(sink.table.table, sink.table.kind, declared)
    staged = staged_files(records.folder, records.manifests(region), sink.result)
    publisher = records.plan.publisher(records.folder, sink.vertex)
    publisher = replace(publisher, generation=publisher.generation + records.renewals(region))
    if sink.table is not None:
        return publish_staged(sink.table, staged, publisher=publisher, access=access)
    if sink.files is None:
        raise ValueError(f"sink of {sink.vertex}: the plan has no folder and no table for it")
    target, files = access.open_path(sink.files.path), sink.files
    if files.partition_by:
        check_partitions_read(records, files.path, {partition_of(file.name) for file in staged})
    done = publish(target, staged, mode=files.mode, publisher=publisher, replace_foreign=files.replace_foreign)
    return asdict(done)


def publish_staged(
    target: TargetTable,
    staged: Sequence[StagedFile],
    *,
    publisher: Publisher,
    access: TableAccess,
    on_step: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Make the staged files the run's rows in a table.

    Args:
        target: as planned, of a kind that the DAG declares.
        staged: in the exchange, of all subtasks.
        publisher: whose they are.
        access: as in `TableSink.publish`.
        on_step: see `TableSink.publish`.

    Raises:
        CommitError, TableError: see `TableSink.publish`; or it is not known whether it was published.
    """
    files = tuple(file for file in staged if file.rows)
    run = RunFiles(publisher, digest_of(staged, target.mode, publisher.identity), files)
    try:
        done: Published = class_of(target.kind).publish(target, run, access, on_step)
    except ExchangeError:
        raise
    except Exception as error:  # of whatever library the table's kind or the storage's brings
        raise TableError(
            f"table {target.table}: {type(error).__name__}: {str(error).partition(chr(10))[0]}; whether this run is "
            "published is not known. Run commit again: it looks first, and publishes nothing twice"
        ) from error
    told = Publication(
        target=target.table,
        identity=publisher.identity,
        files=len(files),
        rows=sum(file.rows for file in staged),
        bytes=sum(file.bytes for file in files),
        changed=done.changed,
        replaced=done.replaced,
    )
    return {**done.details, **asdict(told)}
