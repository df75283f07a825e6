"""What one snapshot of an Iceberg table holds: its files after pruning, or why Spark could not read them rightly."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.expressions import AlwaysTrue
from pyiceberg.manifest import DataFile, FileFormat, ManifestContent
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform

from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.tables.conditions.condition import Condition, read_condition
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.iceberg.bounds import span_of
from airflow_abs.tables.iceberg.spark_schema import SparkSchema, spark_schema

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot

NAME_MAPPING = "schema.name-mapping.default"

_FOOTERS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """A data file: `path` as the table names it, size in bytes, rows; `spans` of the columns that were asked for."""

    path: str
    bytes: int
    rows: int
    spans: tuple[Span | None, ...] = ()


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What is read of a table, fixed: every subtask, retry and recomputation reads these files with this schema.

    `all_files` and `all_bytes` are what the snapshot holds before pruning; `condition` is Spark's SQL of the one that
    rows must meet besides. `partitioned_by` are columns whose values, or ranges of them, have files of their own.
    """

    table: str
    snapshot_id: int | None
    columns: SparkSchema
    files: tuple[SnapshotFile, ...]
    all_files: int
    all_bytes: int
    condition: str | None = None
    partitioned_by: tuple[str, ...] = ()
    uuid: str = ""


def read_snapshot(
    name: str,
    table: Table,
    *,
    snapshot_id: int | None = None,
    where: str | None = None,
    prune: Sequence[str] = (),
) -> SnapshotContent:
    """List the files of a snapshot (None: the current one) that may hold rows for which `where` is true, each with what
    is known of the columns of `prune`.

    Cost: the manifests of the snapshot (under 2 s for 10,000 files). The footer of a file is read only where the table
    is partitioned by identity and its metadata do not tell that the file holds the partition column.

    Raises:
        TableError: no such snapshot; rows are deleted by delete files; files are not Parquet, have no field ids or lack
            a partition column; a column's type, see `spark_schema`; `where`, see `read_condition`.
    """
    snapshot = _find(name, table, snapshot_id)
    schema = table.schema() if snapshot_id is None or snapshot is None else _schema_of(table, snapshot)
    condition = None if where is None else read_condition(name, schema, where)
    files = _list(name, table, snapshot, schema, condition)
    _check_files(name, table, schema, files)
    columns = [next((field for field in schema.fields if field.name == column), None) for column in prune]
    read = sorted(
        (
            SnapshotFile(
                each.file_path,
                each.file_size_in_bytes,
                each.record_count,
                tuple(span_of(each, column) if column is not None else None for column in columns),
            )
            for each in files
        ),
        key=_path,
    )
    summary: Mapping[str, str] = (snapshot.summary if snapshot is not None else None) or {}
    return SnapshotContent(
        table=name,
        uuid=str(table.metadata.table_uuid),
        snapshot_id=snapshot.snapshot_id if snapshot is not None else None,
        columns=spark_schema(name, schema),
        files=tuple(read),
        condition=condition.sql if condition is not None else None,
        all_files=int(summary.get("total-data-files") or len(read)),
        all_bytes=int(summary.get("total-files-size") or sum(file.bytes for file in read)),
        partitioned_by=tuple(
            named
            for field in table.spec().fields
            if field.transform.preserves_order and (named := schema.find_column_name(field.source_id)) is not None
        ),
    )


def _path(file: SnapshotFile) -> str:
    return file.path


def _find(name: str, table: Table, snapshot_id: int | None) -> Snapshot | None:
    """None for a table without any snapshot. A scan of an unknown snapshot would silently find no files."""
    if snapshot_id is None:
        return table.current_snapshot()
    found = table.snapshot_by_id(snapshot_id)
    if found is None:
        known = ", ".join(str(each.snapshot_id) for each in table.snapshots()[-3:])
        raise TableError(
            f"table {name}: has no snapshot {snapshot_id}; its last ones are {known or 'none'}. It has expired or "
            "belongs to another table: name one that is there, or leave snapshot= out for the current one"
        )
    return found


def _schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The columns as they were, as other engines show them when they travel in time."""
    return table.schema() if snapshot.schema_id is None else table.schemas()[snapshot.schema_id]


def _list(
    name: str, table: Table, snapshot: Snapshot | None, schema: Schema, condition: Condition | None
) -> list[DataFile]:
    if snapshot is None:
        return []
    if any(manifest.content == ManifestContent.DELETES for manifest in snapshot.manifests(table.io)):
        raise TableError(
            f"table {name}: snapshot {snapshot.snapshot_id} deletes rows by delete files (merge on read), which "
            "Spark's Parquet reader would show; compact it first (for example CALL system.rewrite_data_files with "
            "'delete-file-threshold' 1), or set write.delete.mode, write.update.mode and write.merge.mode to "
            "copy-on-write"
        )
    # bound to the columns of the snapshot, in which the condition was understood, and not to today's
    metadata = table.metadata.model_copy(update={"current_schema_id": schema.schema_id})
    seen = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    chosen = AlwaysTrue() if condition is None else condition.expression
    return [task.file for task in seen.scan(row_filter=chosen, snapshot_id=snapshot.snapshot_id).plan_files()]


def _check_files(name: str, table: Table, schema: Schema, files: Iterable[DataFile]) -> None:
    for file in files:
        if file.file_format != FileFormat.PARQUET:
            raise TableError(
                f"table {name}: {file.file_path} is {file.file_format.value}; expected Parquet. Rewrite the table's "
                "files as Parquet (write.format.default=parquet, then rewrite_data_files)"
            )
    constants = {
        spec_id: {field.source_id for field in spec.fields if isinstance(field.transform, IdentityTransform)}
        for spec_id, spec in table.specs().items()
    }
    wanted = {field.field_id for field in schema.fields}
    suspects = [(file, (constants.get(file.spec_id, set()) & wanted) - _known_ids(table, file)) for file in files]
    suspects = [(file, ids) for file, ids in suspects if ids]
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        held = pool.map(lambda suspect: _field_ids(table, suspect[0]), suspects)
        for (file, ids), found in zip(suspects, held, strict=True):
            if missing := sorted(schema.find_column_name(field_id) or "" for field_id in ids - found):
                raise TableError(
                    f"table {name}: {file.file_path} does not hold its partition column {', '.join(missing)} by field "
                    "id (it was added from a Hive layout, or by a writer without ids), so it would read as NULL; "
                    "rewrite the table's files (rewrite_data_files), or read the folder with Files(...)"
                )


def _known_ids(table: Table, file: DataFile) -> set[int]:
    """Ids of the columns that the file certainly contains: its writer counted their values. None with a mapping of
    names, because such a table may have adopted files without ids, and counted values under ids of the mapping.
    """
    return set() if NAME_MAPPING in table.properties else set(file.value_counts or ())


def _field_ids(table: Table, file: DataFile) -> set[int]:
    """The ids of the top-level columns in a file's footer."""
    import pyarrow.parquet as pq

    with table.io.new_input(file.file_path).open() as stream:
        return set(_ids(pq.read_schema(stream)))


def _ids(fields: Iterable[object]) -> Iterator[int]:
    for field in fields:
        metadata = getattr(field, "metadata", None) or {}
        if b"PARQUET:field_id" in metadata:
            yield int(metadata[b"PARQUET:field_id"])
