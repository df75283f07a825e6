"""Publishing a sink that is a table: what all subtasks wrote becomes the run's rows in it, by the table's own kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import Publication
from airflow_abs.exchange.publish.record import StagedFile, digest_of
from airflow_abs.exchange.publish.sinks import identity_of, staged_of
from airflow_abs.exchange.records.plan import PlannedSink
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.kinds import check_declared, class_of
from airflow_abs.tables.sink import Published, RunFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_abs.exchange.publish.target_table import TargetTable


def publish_to_table(
    folder: JobFolder,
    region: str,
    sink: PlannedSink,
    access: TableAccess,
    declared: Collection[str],
) -> dict[str, Any]:
    """Publish what all subtasks of the region's decision wrote for one sink; a repetition changes nothing.

    Args:
        folder: of the job.
        region: whose.
        sink: as planned, to a table.
        access: as in `TableSink.publish`.
        declared: the kinds of table that the DAG has.

    Returns:
        the `Publication` as plain values, and the `details` of the table's kind.

    Raises:
        MissingFileError: a subtask has not committed, or a file that it wrote is gone.
        CommitError, TableError: see `check_declared`, `publish_staged`.
    """
    if sink.table is None:
        raise ValueError(f"sink of {sink.vertex}: the plan has no table for it")
    check_declared(sink.table.table, sink.table.kind, declared)
    staged = staged_of(folder, region, sink)
    return publish_staged(sink.table, staged, identity=identity_of(folder, sink), access=access)


def publish_staged(
    target: TargetTable,
    staged: Sequence[StagedFile],
    *,
    identity: str,
    access: TableAccess,
    on_step: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Make the staged files the run's rows in a table.

    Args:
        target: as planned, of a kind that the DAG declares.
        staged: in the exchange, of all subtasks.
        identity: names the run and the sink, the same in every try.
        access: as in `publish_to_table`.
        on_step: see `TableSink.publish`.

    Raises:
        CommitError, TableError: see `TableSink.publish`; or nobody knows whether it was published.
    """
    files = tuple(file for file in staged if file.rows)
    run = RunFiles(identity, digest_of(staged, target.mode, identity), files)
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
        identity=identity,
        files=len(files),
        rows=sum(file.rows for file in staged),
        bytes=sum(file.bytes for file in files),
        changed=done.changed,
        replaced=done.replaced,
    )
    return {**done.details, **asdict(told)}
