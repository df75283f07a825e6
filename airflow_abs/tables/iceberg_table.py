"""`IcebergTable`: a snapshot of an Apache Iceberg table as the source of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.storage.uris import for_hadoop
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.source import Pin

if TYPE_CHECKING:
    from airflow_abs.tables.iceberg.snapshot import SnapshotContent

_LEAST_PARTS = 3


@dataclass(frozen=True, slots=True)
class IcebergTable:
    """A table of an Iceberg catalog. `plan` fixes the snapshot: all subtasks of the run read that one.

    The extra ``iceberg`` (pyiceberg) must be installed on Airflow's side; Spark needs nothing. Tables whose rows are
    deleted by delete files are refused: compact them first.

    Args:
        table: ``catalog.namespace.table``; templated.
        conn_id: the Airflow connection that says where the catalog is; by default the name of the catalog. Its extra
            holds pyiceberg's properties, such as ``{"type": "rest", "uri": "https://..."}``.
        snapshot: the id of the one to read; templated; by default the current one when `plan` runs.
        where: only rows for which this holds, such as ``"day >= '2026-01-01' AND region = 'north'"``: comparisons of
            columns with literals, in pyiceberg's grammar (``"my column"`` is a column, ``LIKE`` takes a prefix such as
            ``'no%'``). Files that cannot hold such rows are not read; templated.

    Raises:
        ValueError: the name has no catalog or no namespace.
    """

    table: str
    conn_id: str | None = None
    snapshot: int | str | None = None
    where: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.table, str) and "{{" not in self.table and len(self.table.split(".")) < _LEAST_PARTS:
            raise ValueError(
                f"IcebergTable({self.table!r}): expected catalog.namespace.table, such as 'lake.sales.orders'; the "
                "catalog is the name of an Airflow connection"
            )

    def to_json(self) -> dict[str, Any]:
        return {"kind": "iceberg", **asdict(self)}

    def pin(self, connect: Callable[[str], Mapping[str, str]]) -> Pin:
        """Fix what is read.

        Args:
            connect: the catalog's properties behind a connection's id.

        Raises:
            TableError: see `load_table` and `read_snapshot`; or pyiceberg is not installed.
        """
        catalog, _, name = self.table.partition(".")
        try:
            from airflow_abs.tables.iceberg.catalog import load_table
            from airflow_abs.tables.iceberg.snapshot import read_snapshot
        except ImportError as error:
            raise TableError(
                f"table {self.table}: {error}; install airflow-abs[iceberg] where Airflow's workers run"
            ) from error
        table = load_table(name, catalog, connect(self.conn_id or catalog))
        content = read_snapshot(self.table, table, snapshot_id=self._snapshot_id(), where=self.where)
        return Pin(
            schema=content.columns.schema,
            pinned=_describe(content),
            files=tuple(SourceFile(for_hadoop(file.path), file.bytes) for file in content.files),
        )

    def _snapshot_id(self) -> int | None:
        if self.snapshot in (None, "", "None"):
            return None
        try:
            return int(str(self.snapshot))
        except ValueError as error:
            raise TableError(
                f"table {self.table}: snapshot is {self.snapshot!r}; expected the id of a snapshot"
            ) from error


def _describe(content: SnapshotContent) -> PinnedTable:
    from airflow_abs.tables.iceberg.spark_schema import READ_SETTINGS

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
    )
