"""A run's own folder beside a table's files: what the run wrote is copied there, and becomes the table's from there.

Its place is ``_airflow_abs/<run>-<digest>`` in the folder that the table had at first: hidden from anyone who looks for
files or partitions in there, but not from those whom the catalog sends to it.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from airflow_abs.exchange.storage.locations import Location
from airflow_abs.exchange.storage.whole_files import make_folder
from airflow_abs.tables.catalog.partitions import folder_of
from airflow_abs.tables.delta.partition_values import text_of_folder
from airflow_abs.tables.publishing.required_values import check_required
from airflow_abs.tables.publishing.staged_files import (
    COPIES_AT_ONCE,
    check_partition,
    open_staged,
    partition_texts,
)

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable

HIDDEN = "_airflow_abs"
"""The folder of the runs' folders."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run: what it is to be called, its size, and the texts of its partition values."""

    staged: StagedFile
    name: str
    values: tuple[str | None, ...]

    @property
    def partition(self) -> tuple[str | None, ...]:
        return self.values


def name_files(target: TargetTable, staged: Sequence[StagedFile], prefix: str) -> list[RunFile]:
    """The same names for the same files, in every try.

    Raises:
        TableError: see `check_partition`.
    """
    named = []
    for number, file in enumerate(sorted(staged, key=lambda each: each.name)):
        texts = partition_texts(file.name)
        values = tuple(text_of_folder(each.kind, texts[each.column]) for each in target.partitions)
        check_partition(target, file, values, "Spark")
        named.append(RunFile(file, f"{prefix}-{number:05d}.parquet", values))
    return named


@dataclass(frozen=True, slots=True)
class RunFolder:
    """`place` is where it is; `columns` are those of the partitions."""

    place: Location
    columns: Sequence[str]

    def folder(self, values: tuple[str | None, ...]) -> Location:
        """Of a partition's files."""
        return self.place / folder_of(self.columns, values) if self.columns else self.place

    def fill(self, target: TargetTable, files: Sequence[RunFile]) -> None:
        """Copy them all; those that are there already are left alone.

        Raises:
            MissingFileError, DamagedFileError, TableError: see `open_staged`, `check_required`.
        """
        _make(self.place)
        for values in {file.values for file in files}:
            _make(self.folder(values))
        with ThreadPoolExecutor(COPIES_AT_ONCE, thread_name_prefix="copy") as pool:
            list(pool.map(partial(self._copy, target), files))

    def move(self, files: Sequence[RunFile], folders: dict[tuple[str | None, ...], Location]) -> None:
        """Put them into folders of the table, by partition values; each appears whole."""
        for values in {file.values for file in files}:
            _make(folders[values])
        for file in files:
            _move(self.folder(file.values) / file.name, folders[file.values] / file.name, file.staged.bytes)

    def _copy(self, target: TargetTable, file: RunFile) -> None:
        to = self.folder(file.values) / file.name
        with open_staged(file.staged) as source:
            check_required(target, file.staged, pq.ParquetFile(source))
            source.seek(0)
            if is_there(to, file.staged.bytes):
                return
            draft = to.parent / f"_{file.name}.{uuid.uuid4().hex}"
            with draft.fs.open(draft.path, "wb") as output:
                shutil.copyfileobj(source, output)
            draft.fs.mv(draft.path, to.path)


def _make(folder: Location) -> None:
    if folder.is_local:
        make_folder(folder.local)


def is_there(file: Location, size: int) -> bool:
    """Whether a file of this size is there."""
    try:
        return bool(file.fs.size(file.path) == size)
    except FileNotFoundError:
        return False


def _move(source: Location, to: Location, size: int) -> None:
    if is_there(to, size):  # by an earlier try
        with suppress(FileNotFoundError):
            source.fs.rm_file(source.path)
        return
    try:
        source.fs.mv(source.path, to.path)
    except FileNotFoundError:
        if not is_there(to, size):  # by another try of the same run, which is under way
            raise
