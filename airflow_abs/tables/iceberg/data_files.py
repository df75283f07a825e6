"""From what Spark wrote to the exchange to files of an Iceberg table: copied to its location, measured, described."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.transforms import VoidTransform
from pyiceberg.typedef import Record

from airflow_abs.exchange.errors import DamagedFileError
from airflow_abs.exchange.results.thrift_compact import ThriftError
from airflow_abs.tables.iceberg.field_ids import ColumnsDifferError, footer_with_ids, lacks_ids
from airflow_abs.tables.iceberg.target import TEXT_PREFIX
from airflow_abs.tables.publishing.required_values import check_required
from airflow_abs.tables.publishing.staged_files import COPIES_AT_ONCE, copy_bytes, open_staged, partition_texts

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable


@dataclass(frozen=True, slots=True)
class _Writer:
    """What is the same for all files of one publication."""

    table: Table
    schema: Schema
    target: TargetTable
    prefix: str

    def add(self, number: int, staged: StagedFile) -> DataFile:
        """Copy one file under a name of its own, and describe it."""
        path = self.table.location_provider().new_data_location(f"{self.prefix}-{number:05d}.parquet")
        size = _copy(self.table, staged, path, self.schema)
        with self.table.io.new_input(path).open() as stream:
            written = pq.ParquetFile(stream)
            check_required(self.target, staged, written)
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=written.metadata,
            stats_columns=compute_statistics_plan(self.schema, self.table.properties),
            parquet_column_mapping=parquet_path_to_id_mapping(self.schema),
        )
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=self._partition(staged.name),
            file_size_in_bytes=size,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )
        file.spec_id = self.target.details["spec_id"]
        return file

    def _partition(self, name: str) -> Record:
        texts = partition_texts(name)
        kinds = {partition.column: partition.kind for partition in self.target.partitions}
        columns = iter(self.target.partitions)
        spec = self.table.specs()[self.target.details["spec_id"]]
        values = [
            None
            if isinstance(field.transform, VoidTransform)
            else _value(texts[(column := next(columns).column)], kinds[column])
            for field in spec.fields
        ]
        return Record(*values)


def make_data_files(table: Table, target: TargetTable, staged: Sequence[StagedFile], prefix: str) -> list[DataFile]:
    """Bring a publication's files to the table's location; what fails there leaves files that no snapshot names.

    Args:
        table: current.
        target: as planned.
        staged: in the exchange.
        prefix: of the files' names; a part that is new each time is added.

    Raises:
        MissingFileError, DamagedFileError: a staged file is gone or has another size than its manifest says.
        TableError: NULL in a required column.
    """
    schema = next(schema for schema in table.metadata.schemas if schema.schema_id == target.details["schema_id"])
    writer = _Writer(table, schema, target, f"{prefix}-{uuid.uuid4().hex[:12]}")
    with ThreadPoolExecutor(COPIES_AT_ONCE, thread_name_prefix="copy-to-table") as pool:
        return list(pool.map(writer.add, range(len(staged)), staged))


def _copy(table: Table, staged: StagedFile, path: str, schema: Schema) -> int:
    """Its data as they are, its footer with the ids that Spark leaves out; the bytes that it then has."""
    with open_staged(staged) as stream:
        try:
            data, footer = footer_with_ids(stream, staged.bytes, schema) if lacks_ids(schema) else (staged.bytes, b"")
        except (ColumnsDifferError, ThriftError) as error:
            raise DamagedFileError(
                f"{staged.source}: its columns cannot be given the field ids of table {table.name()}: {error}; clear "
                "the subtask that wrote it",
                path=str(staged.source),
            ) from error
        stream.seek(0)
        with table.io.new_output(path).create() as output:
            copy_bytes(stream, output, data)
            output.write(footer)
    return data + len(footer)


def _value(text: str | None, kind: str) -> Any:
    if text is None:
        return None
    if kind == "string":
        return text.removeprefix(TEXT_PREFIX)
    if kind == "boolean":
        return text == "true"
    return Decimal(text) if kind.startswith("decimal") else int(text)
