"""Publishing a sink that is a table: what all subtasks wrote becomes one snapshot of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.errors import ExchangeError
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.publication import Publication
from airflow_abs.exchange.publish.record import StagedFile, digest_of
from airflow_abs.exchange.publish.sinks import identity_of, staged_of
from airflow_abs.exchange.records.plan import PlannedSink
from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_abs.exchange.publish.target_table import TargetTable


def publish_to_table(
    folder: JobFolder, region: str, sink: PlannedSink, connect: Callable[[str], Mapping[str, str]]
) -> dict[str, Any]:
    """Publish what all subtasks of the region's decision wrote for one sink; a repetition changes nothing.

    Args:
        folder: of the job.
        region: whose.
        sink: as planned, to a table.
        connect: an Airflow connection's id to what the connection holds.

    Returns:
        the `Publication` as plain values, and `snapshot`: the id of the one that holds the rows, if there is one.

    Raises:
        MissingFileError: a subtask has not committed, or a file that it wrote is gone.
        CommitConflictError, TableError: see `publish_staged`.
    """
    if sink.table is None:
        raise ValueError(f"sink of {sink.vertex}: the plan has no table for it")
    staged = staged_of(folder, region, sink)
    return publish_staged(sink.table, staged, identity=identity_of(folder, sink), connect=connect)


def publish_staged(
    target: TargetTable,
    staged: Sequence[StagedFile],
    *,
    identity: str,
    connect: Callable[[str], Mapping[str, str]],
    on_step: Callable[[str], None] = lambda step: None,
) -> dict[str, Any]:
    """Make the staged files the run's rows in a table.

    Args:
        target: as planned.
        staged: in the exchange, of all subtasks.
        identity: names the run and the sink, the same in every try.
        connect: as in `publish_to_table`.
        on_step: see `SnapshotPublication`.

    Raises:
        CommitConflictError, TableError: see `SnapshotPublication.publish`; or nobody knows whether it was published.
    """
    from airflow_abs.tables.iceberg.catalog import load_table
    from airflow_abs.tables.iceberg.data_files import make_data_files
    from airflow_abs.tables.iceberg.publish import SnapshotPublication

    catalog, _, name = target.table.partition(".")
    with_rows = [file for file in staged if file.rows]
    publication = SnapshotPublication(
        target=target,
        identity=identity,
        digest=digest_of(staged, target.mode, identity),
        load=partial(load_table, name, catalog, connect(target.conn_id)),
        make_files=lambda table, prefix: make_data_files(table, target, with_rows, prefix),
        count=len(with_rows),
        on_step=on_step,
    )
    try:
        done = publication.publish()
    except ExchangeError:
        raise
    except Exception as error:  # of whatever library the catalog's or the storage's kind brings
        raise TableError(
            f"table {target.table}: {type(error).__name__}: {str(error).partition(chr(10))[0]}; whether this run is "
            "published is not known. Run commit again: it looks first, and publishes nothing twice"
        ) from error
    told = Publication(
        target=target.table,
        identity=identity,
        files=len(with_rows),
        rows=sum(file.rows for file in staged),
        bytes=sum(file.bytes for file in with_rows),
        changed=done.changed,
        replaced=done.replaced,
    )
    return {**asdict(told), "snapshot": done.snapshot}
