"""`Table`: a table of Spark's catalog, be it a Hive metastore's, as the source or the sink of a vertex."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.sources.pinned import Constant, PinnedTable
from airflow_abs.exchange.sources.pruned_by import VertexColumn, check_prune
from airflow_abs.exchange.storage.uris import with_authority
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.sink import Published, RunFiles
from airflow_abs.tables.source import Pin, spans_by_column
from airflow_abs.tables.table_arguments import check_sink, installed, refuse_source_arguments

if TYPE_CHECKING:
    from airflow_abs.tables.catalog.content import TableContent


@dataclass(frozen=True, slots=True)
class Table:
    """A table of Parquet files in the catalog of the job's Spark, such as a Hive metastore; it must exist.

    As a source: `plan` lists the files of the catalog's partitions, and all subtasks, retries and recomputations of the
    run read those. Such tables keep no versions: if a file was replaced or deleted since, the subtask that reads it
    fails and names it.

    As a sink: `commit` copies the run's files into a folder of its own and points the catalog to it (overwriting), or
    moves them into the existing folders (appending), exactly once.

    Only Spark accesses the catalog. For a source Airflow's workers need nothing; for a sink they must reach the
    table's folder.

    Args:
        name: ``database.table``, in Spark's syntax; templated.
        where: only rows for which this holds, such as ``"day >= '2026-01-01' AND region = 'north'"``: comparisons of
            columns with literals, in the grammar of `IcebergTable` (extra ``iceberg``). Partitions without such rows
            are not listed; templated; for sources.
        prune: source columns and the vertex columns whose values they must have, such as ``{"sold_date":
            dates.column("d")}``. Rows without such a value are not read, nor are partitions without such rows; for
            sources.
        mode: append, overwrite (the table then has only this run's rows) or overwrite_partitions (only those
            partitions that the run writes); for sinks.
        storage: the Airflow connection for the table's storage, such as ``my_aws`` for a table on S3; not needed on a
            shared file system; for sinks.
        sort_by: columns by which the rows of each file are sorted; for sinks.
        files: maximum number of files from each subtask (in each partition); for sinks. Left out, one for each
            Spark task.

    Raises:
        ValueError: an invalid table name, an unknown mode, invalid column names, less than one file.
    """

    name: str
    where: str | None = None
    prune: Mapping[str, VertexColumn] = field(default_factory=dict)
    mode: TableMode = "append"
    storage: str | None = None
    sort_by: tuple[str, ...] = ()
    files: int | None = None

    def __post_init__(self) -> None:
        from airflow_abs.tables.catalog.statements import quote_table

        if isinstance(self.name, str) and "{{" not in self.name:
            quote_table(self.name)
        sort_by = check_sink(f"Table({self.name!r})", self.mode, self.sort_by, self.files)
        object.__setattr__(self, "sort_by", sort_by)
        object.__setattr__(self, "prune", check_prune(f"Table({self.name!r})", self.prune))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def pin(self, access: TableAccess) -> Pin:
        """Fix what is read.

        Args:
            access: to the catalog of the job's Spark.

        Raises:
            TableError: see `read_content`; or `where` is given, and pyiceberg is not installed.
        """
        from airflow_abs.tables.catalog.content import read_content

        with access.open_catalog() as catalog, installed(self.name, "iceberg"):
            content = read_content(self.name, catalog, self.where, list(self.prune))
        files = tuple(
            SourceFile(
                with_authority(each.file.path), each.file.bytes, constants=(*each.values, str(each.file.changed))
            )
            for each in content.files
        )
        spans = spans_by_column(self.prune, [each.spans for each in content.files])
        return Pin(content.schema, _describe(content), files, spans, tuple(content.partition_types))

    def target(self, access: TableAccess) -> TargetTable:
        """What rows must be like to be published to it.

        Raises:
            TableError: see `read_target`; or it is given what only a source has.
        """
        from airflow_abs.tables.catalog.target import read_target

        refuse_source_arguments(self.name, "prune", self.where)
        with access.open_catalog() as catalog:
            target = read_target(self.name, catalog, storage=self.storage or "", mode=self.mode)
        sort_by = tuple(column for column in self.sort_by if column not in target.not_in_files)
        return replace(target, sort_by=sort_by, files=self.files)

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """The run's files where the catalog sends readers; errors as `CatalogPublication.publish`."""
        from airflow_abs.tables.catalog.publish import CatalogPublication

        with access.open_catalog() as catalog:
            return CatalogPublication(target, run, catalog, access.open_path, on_step).publish()

    @property
    def asset_uri(self) -> str | None:
        """``x-spark-table://sales.orders``; None if the name is templated."""
        if not isinstance(self.name, str) or "{{" in self.name:
            return None
        return f"x-spark-table://{quote(self.name.replace('`', ''), safe='.')}"


def _describe(content: TableContent) -> PinnedTable:
    from airflow_abs.tables.catalog.target import identity_of
    from airflow_abs.tables.spark_settings import READ_SETTINGS

    size = sum(each.file.bytes for each in content.files)
    return PinnedTable(
        table=content.description.name,
        version=f"listing {content.listing}",
        format="parquet",
        file_schema=content.file_schema,
        files=len(content.files),
        bytes=size,
        all_files=len(content.files),
        all_bytes=size,
        condition=content.condition,
        settings=READ_SETTINGS,
        details={"partitions": content.partitions, "all_partitions": content.all_partitions},
        constants=tuple(
            Constant(name, text := f"__constant_{number}", f"CAST({text} AS {kind})")
            for number, (name, kind) in enumerate(content.partition_types.items())
        ),
        rewritable=True,
        uuid=identity_of(content.description),
    )
