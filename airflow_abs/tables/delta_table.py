"""`DeltaTable`: a Delta Lake table, a version of it as the source of a vertex or a new one as its sink."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import Constant, PinnedTable
from airflow_abs.exchange.sources.pruned_by import VertexColumn, check_prune
from airflow_abs.exchange.storage.uris import connection_of, for_hadoop, with_authority, without_connection
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.sink import Published, RunFiles
from airflow_abs.tables.source import Pin, spans_by_column
from airflow_abs.tables.table_arguments import check_sink, installed, read_number, refuse_source_arguments

if TYPE_CHECKING:
    from airflow_abs.tables.delta.version import VersionContent, VersionFile


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A Delta table, which must exist.

    As a source: `plan` fixes the version for all subtasks of the run. Tables with deletion vectors are refused: purge
    them first. As a sink: a run's output becomes one version, exactly once.

    The extra ``delta`` (deltalake) must be installed on Airflow's side; Spark needs nothing.

    Args:
        path: the folder that contains ``_delta_log``: a local path, or a URI, which may name an Airflow connection, as
            in ``s3://my_aws@lake/orders``; templated.
        version: number of the version to read; templated; by default the newest when `plan` runs; for sources.
        where: only rows for which this holds, such as ``"day >= '2026-01-01' AND region = 'north'"``: comparisons of
            columns with literals, in the grammar of `IcebergTable`. Files that cannot hold such rows are not read;
            templated; for sources.
        prune: source columns and the vertex columns whose values they must have, such as ``{"sold_date":
            dates.column("d")}``. Rows without such a value are not read, nor are files without such rows; for sources.
        mode: append, overwrite (the table then has only this run's rows) or overwrite_partitions (only those
            partitions that the run writes); for sinks.
        sort_by: columns by which the rows of each file are sorted; for sinks.
        files: maximum number of files from each subtask (in each partition); for sinks. Left out, one for each
            Spark task.

    Raises:
        ValueError: no path; an unknown mode, invalid column names, less than one file.
    """

    path: str
    version: int | str | None = None
    where: str | None = None
    mode: TableMode = "append"
    sort_by: tuple[str, ...] = ()
    files: int | None = None
    prune: Mapping[str, VertexColumn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.path:
            raise ValueError("DeltaTable: the path is empty; give the folder that _delta_log is in")
        sort_by = check_sink(f"DeltaTable({self.path!r})", self.mode, self.sort_by, self.files)
        object.__setattr__(self, "sort_by", sort_by)
        object.__setattr__(self, "prune", check_prune(f"DeltaTable({self.path!r})", self.prune))
        try:
            if isinstance(self.path, str):  # an XCom has a path only in the run
                with_authority(self.path)
        except ValueError as error:
            raise ValueError(f"DeltaTable: {error}") from None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def pin(self, access: TableAccess) -> Pin:
        """Fix what is read.

        Args:
            access: to the connection that the path names.

        Raises:
            TableError: see `load_table` and `read_version`; or deltalake is not installed.
        """
        with installed(self.path, "delta"):
            from airflow_abs.tables.delta.storage import TableFolder, load_table
            from airflow_abs.tables.delta.version import read_version

            version, options = self._version(), _options(self.path, access)
            table = load_table(self.path, options, version)
            sizes = TableFolder(self.path, options).sizes if version is not None else None
            content = read_version(self.path, table, where=self.where, sizes=sizes, prune=list(self.prune))
        return Pin(
            schema=content.columns.schema,
            pinned=_describe(content),
            files=tuple(SourceFile(self._uri(file), file.bytes, constants=file.partition) for file in content.files),
            spans=spans_by_column(self.prune, [file.spans for file in content.files]),
            partitioned_by=content.columns.partitions,
        )

    def target(self, access: TableAccess) -> TargetTable:
        """What rows must be like to be published to it.

        Raises:
            TableError: see `load_table` and `read_target`; it is given what only a source has; or deltalake is not
                installed.
        """
        refuse_source_arguments(self.path, "version", self.where, self._version())
        with installed(self.path, "delta"):
            from airflow_abs.tables.delta.storage import load_table
            from airflow_abs.tables.delta.target import read_target
        table = load_table(self.path, _options(self.path, access))
        target = read_target(self.path, table, conn_id=connection_of(self.path) or "", mode=self.mode)
        sort_by = tuple(column for column in self.sort_by if column not in target.not_in_files)
        return replace(target, sort_by=sort_by, files=self.files, folder=self.path)

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """One version with the run's files; errors as `VersionPublication.publish`, `make_data_files`."""
        from airflow_abs.tables.delta.data_files import make_data_files
        from airflow_abs.tables.delta.publish import VersionPublication
        from airflow_abs.tables.delta.storage import TableFolder, load_table

        options = _options(target.table, access)
        folder = TableFolder(target.table, options)
        publication = VersionPublication(
            target=target,
            publisher=run.publisher,
            digest=run.digest,
            load=partial(load_table, target.table, options),
            folder=folder,
            make_files=lambda prefix: make_data_files(folder, target, run.files, prefix),
            count=len(run.files),
            on_step=on_step,
        )
        return publication.publish()

    @property
    def asset_uri(self) -> str | None:
        """The folder's URI; None if the path is templated."""
        if not isinstance(self.path, str) or "{{" in self.path:
            return None
        return self._root()

    def _root(self) -> str:
        path = without_connection(with_authority(self.path)).rstrip("/")
        return path if "://" in path else f"file://{Path(path).absolute()}"

    def _uri(self, file: VersionFile) -> str:
        """As Spark takes it."""
        return for_hadoop(file.path if file.is_absolute else f"{self._root()}/{file.path}")

    def _version(self) -> int | None:
        return read_number(self.path, "version", self.version, "the number of a version")


def _options(path: str, access: TableAccess) -> dict[str, str]:
    from airflow_abs.tables.delta.storage import storage_options

    conn_id = connection_of(path)
    return storage_options(path, access.connection(conn_id) if conn_id else {})


def _describe(content: VersionContent) -> PinnedTable:
    from airflow_abs.tables.delta.partition_values import read_expression
    from airflow_abs.tables.spark_settings import READ_SETTINGS

    columns = content.columns
    return PinnedTable(
        table=content.table,
        version=f"version {content.version}",
        format="parquet",
        file_schema=columns.file_schema,
        files=len(content.files),
        bytes=sum(file.bytes for file in content.files),
        all_files=content.all_files,
        all_bytes=content.all_bytes,
        condition=content.condition,
        settings=READ_SETTINGS,
        details={"version": content.version},
        uuid=content.uuid,
        constants=tuple(
            Constant(column, text := f"__constant_{number}", read_expression(columns.type_of(column), text))
            for number, column in enumerate(columns.partitions)
        ),
    )
