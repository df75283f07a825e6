"""The Parquet files that copied rows become: many enough to be shared by subtasks, few enough to be listed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_abs.exchange.errors import ExchangeUnreachableError
from airflow_abs.exchange.paths import uri_for_spark
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.client_errors import raise_if_throttled, reason_of, storage_errors
from airflow_abs.exchange.storage.locations import ExchangePath, locate
from airflow_abs.tables.postgres.columns import Column, arrow_schema

_FIRST_FILE = 8 << 20
_FILES_OF_A_SIZE = 64
_ROW_GROUP = 32 << 20


def bytes_of_file(number: int) -> int:
    """After how many bytes in memory the file of this number (0, 1, ...) is full: 8 MiB, and twice as much after every
    64 files, so that a table of 1 TiB becomes about a thousand."""
    return _FIRST_FILE << (number // _FILES_OF_A_SIZE)


@dataclass(slots=True)
class LandedFiles:
    """Files of one stream of rows.

    Args:
        folder: in the exchange.
        stream: 0, 1, ...; in the names of its files.
        columns: of the rows.
    """

    folder: ExchangePath
    stream: int
    columns: Sequence[Column]
    _files: list[SourceFile] = field(default_factory=list)
    _waiting: list[pa.RecordBatch] = field(default_factory=list)
    _open: _OpenFile | None = None

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows.

        Raises:
            ExchangeUnreachableError: the storage refuses.
        """
        self._waiting.append(rows)
        waiting = sum(batch.nbytes for batch in self._waiting)
        limit = bytes_of_file(len(self._files))
        written = self._open.bytes_in_memory if self._open else 0
        if waiting >= _ROW_GROUP or written + waiting >= limit:
            self._write_group()
        if written + waiting >= limit:
            self._close_file()

    def close(self) -> list[SourceFile]:
        """End the last file; all of them, in order. A stream without rows has none.

        Raises:
            ExchangeUnreachableError: the storage refuses.
        """
        self._write_group()
        self._close_file()
        return self._files

    def _write_group(self) -> None:
        if not self._waiting:
            return
        group = pa.Table.from_batches(self._waiting)
        self._waiting = []
        try:
            if self._open is None:
                name = f"part-{self.stream:05d}-{len(self._files):05d}"
                self._open = _OpenFile.create(self.folder, name, self.columns)
            self._open.write(group)
        except storage_errors() as error:
            self._refuse(error)

    def _close_file(self) -> None:
        if self._open is None:
            return
        try:
            self._files.append(self._open.close())
        except storage_errors() as error:
            self._refuse(error)
        self._open = None

    def _refuse(self, error: Exception) -> None:
        raise_if_throttled(locate(self.folder), error)
        raise ExchangeUnreachableError(
            f"{locate(self.folder)}: cannot be written ({reason_of(error)}); check that the folder is writable and not "
            "full"
        ) from error


@dataclass(slots=True)
class _OpenFile:
    path: ExchangePath
    stream: Any
    writer: pq.ParquetWriter
    bytes_in_memory: int = 0

    @staticmethod
    def create(folder: ExchangePath, name: str, columns: Sequence[Column]) -> _OpenFile:
        path = folder / f"{name}.parquet"
        location = locate(path)
        if location.is_local:
            location.local.parent.mkdir(parents=True, exist_ok=True)
        stream = location.fs.open(location.path, "wb")
        return _OpenFile(path, stream, pq.ParquetWriter(stream, arrow_schema(columns), compression="zstd"))

    def write(self, group: pa.Table) -> None:
        self.writer.write_table(group)
        self.bytes_in_memory += group.nbytes

    def close(self) -> SourceFile:
        self.writer.close()
        size = self.stream.tell()
        self.stream.close()
        return SourceFile(uri_for_spark(self.path), size)
