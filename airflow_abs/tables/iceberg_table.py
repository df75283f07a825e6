"""`IcebergTable`: an Apache Iceberg table, a snapshot of it as the source of a vertex or a new one as its sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.pruned_by import VertexColumn, check_prune
from airflow_abs.exchange.storage.uris import for_hadoop
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.sink import Published, RunFiles
from airflow_abs.tables.source import Pin, spans_by_column
from airflow_abs.tables.table_arguments import check_sink, installed, read_number, refuse_source_arguments

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_abs.tables.iceberg.snapshot import SnapshotContent

_LEAST_PARTS = 3


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """A table of an Iceberg catalog, which must exist.

    As a source: `plan` fixes the snapshot for all subtasks of the run. Tables with delete files are refused: compact
    them first. As a sink: a run's output becomes one snapshot, exactly once.

    The extra ``iceberg`` (pyiceberg) must be installed on Airflow's side; Spark needs nothing.

    Args:
        table: ``catalog.namespace.table``; templated.
        conn_id: the Airflow connection that says where the catalog is; by default the name of the catalog. Its extra
            holds pyiceberg's properties, such as ``{"type": "rest", "uri": "https://..."}``.
        snapshot: id of the snapshot to read; templated; by default the current one when `plan` runs; for sources.
        where: only rows for which this holds, such as ``"day >= '2026-01-01' AND region = 'north'"``: comparisons of
            columns with literals, in pyiceberg's grammar (``"my column"`` is a column, ``LIKE`` takes a prefix such as
            ``'no%'``). Files that cannot hold such rows are not read; templated; for sources.
        prune: source columns and the vertex columns whose values they must have, such as ``{"sold_date":
            dates.column("d")}``. Rows without such a value are not read, nor are files without such rows; for sources.
        mode: append, overwrite (the table then has only this run's rows) or overwrite_partitions (only those
            partitions that the run writes); for sinks.
        sort_by: columns by which the rows of each file are sorted; for sinks.
        files: maximum number of files from each subtask (in each partition); for sinks. Left out, one for each
            Spark task.

    Raises:
        ValueError: a name without catalog or namespace, an unknown mode, invalid column names, less than one file.
    """

    table: str
    conn_id: str | None = None
    snapshot: int | str | None = None
    where: str | None = None
    mode: TableMode = "append"
    sort_by: tuple[str, ...] = ()
    files: int | None = None
    prune: Mapping[str, VertexColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.table, str) and "{{" not in self.table and len(self.table.split(".")) < _LEAST_PARTS:
            raise ValueError(
                f"IcebergTable({self.table!r}): expected catalog.namespace.table, such as 'lake.sales.orders'; the "
                "catalog is the name of an Airflow connection"
            )
        sort_by = check_sink(f"IcebergTable({self.table!r})", self.mode, self.sort_by, self.files)
        object.__setattr__(self, "sort_by", sort_by)
        object.__setattr__(self, "prune", check_prune(f"IcebergTable({self.table!r})", self.prune))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def pin(self, access: TableAccess) -> Pin:
        """Fix what is read.

        Args:
            access: to the connection of the catalog.

        Raises:
            TableError: see `load_table` and `read_snapshot`; or pyiceberg is not installed.
        """
        with installed(self.table, "iceberg"):
            from airflow_abs.tables.iceberg.snapshot import read_snapshot
        content = read_snapshot(
            self.table,
            self._load(access),
            snapshot_id=self._snapshot_id(),
            where=self.where,
            prune=list(self.prune),
        )
        return Pin(
            schema=content.columns.schema,
            pinned=_describe(content),
            files=tuple(SourceFile(for_hadoop(file.path), file.bytes) for file in content.files),
            spans=spans_by_column(self.prune, [file.spans for file in content.files]),
            partitioned_by=content.partitioned_by,
        )

    def target(self, access: TableAccess) -> TargetTable:
        """What rows must be like to be published to it.

        Raises:
            TableError: see `load_table` and `read_target`; it is given what only a source has; or pyiceberg is not
                installed.
        """
        with installed(self.table, "iceberg"):
            from airflow_abs.tables.iceberg.target import read_target
        refuse_source_arguments(self.table, "snapshot", self.where, self._snapshot_id())
        conn_id = self.conn_id or self.table.partition(".")[0]
        target = read_target(self.table, self._load(access), conn_id=conn_id, mode=self.mode)
        return replace(target, sort_by=self.sort_by, files=self.files)

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """One snapshot with the run's files; errors as `SnapshotPublication.publish`, `make_data_files`."""
        from airflow_abs.tables.iceberg.catalog import load_table
        from airflow_abs.tables.iceberg.data_files import make_data_files
        from airflow_abs.tables.iceberg.publish import SnapshotPublication

        catalog, _, name = target.table.partition(".")
        publication = SnapshotPublication(
            target=target,
            publisher=run.publisher,
            digest=run.digest,
            load=partial(load_table, name, catalog, access.connection(target.conn_id)),
            make_files=lambda table, prefix: make_data_files(table, target, run.files, prefix),
            count=len(run.files),
            on_step=on_step,
        )
        return publication.publish()

    @property
    def asset_uri(self) -> str | None:
        """``x-iceberg://lake/sales.orders``; None if the name is templated."""
        if not isinstance(self.table, str) or "{{" in self.table:
            return None
        catalog, _, name = self.table.partition(".")
        return f"x-iceberg://{catalog}/{name}"

    def _load(self, access: TableAccess) -> Table:
        from airflow_abs.tables.iceberg.catalog import load_table

        catalog, _, name = self.table.partition(".")
        return load_table(name, catalog, access.connection(self.conn_id or catalog))

    def _snapshot_id(self) -> int | None:
        return read_number(self.table, "snapshot", self.snapshot, "the id of a snapshot")


def _describe(content: SnapshotContent) -> PinnedTable:
    from airflow_abs.tables.spark_settings import READ_SETTINGS

    return PinnedTable(
        table=content.table,
        version=f"snapshot {content.snapshot_id}" if content.snapshot_id is not None else "",
        format="parquet",
        file_schema=content.columns.file_schema,
        files=len(content.files),
        bytes=sum(file.bytes for file in content.files),
        all_files=content.all_files,
        all_bytes=content.all_bytes,
        condition=content.condition,
        settings=READ_SETTINGS,
        details={"snapshot": content.snapshot_id},
        uuid=content.uuid,
    )
