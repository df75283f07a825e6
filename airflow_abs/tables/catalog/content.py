"""What a table of Spark's catalog holds, fixed by `plan`: files, each with the time of its last change.

Neither Hive nor Spark keeps versions of such tables: files are replaced under the names that they have, or are gone as
soon as another writer overwrites. So the list is what is pinned, and subtasks compare the files with it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_abs.core.pruning.value_ranges import Span
from airflow_abs.tables.catalog.description import TableDescription, check_readable, describe, shown_columns
from airflow_abs.tables.catalog.locations import locate_partitions
from airflow_abs.tables.catalog.partitions import Partition, choose, list_values, spans
from airflow_abs.tables.catalog.statements import SparkCatalog, StatementError, StoredFile, quote_table, refused
from airflow_abs.tables.errors import TableError

_TYPES = frozenset(
    "string long integer short byte boolean date float double binary timestamp timestamp_ntz".split()  # noqa: SIM905
)
"""Of partition columns, whose values are made of texts."""


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table, and the values of its partition as the catalog's texts; `spans` of the columns that were
    asked for."""

    file: StoredFile
    values: tuple[str | None, ...]
    spans: tuple[Span | None, ...] = ()


@dataclass(frozen=True, slots=True)
class TableContent:
    """What is read of a table.

    `columns` are Spark's JSON of all of them, those of partitions last; `partition_types` Spark's words by name.
    `condition`, SQL that every row must meet, leaves `partitions` of `all_partitions`.
    """

    description: TableDescription
    columns: Sequence[Mapping[str, Any]]
    partition_types: Mapping[str, str]
    files: tuple[TableFile, ...]
    partitions: int
    all_partitions: int
    condition: str | None = None

    @property
    def schema(self) -> str:
        return json.dumps({"type": "struct", "fields": self.columns})

    @property
    def file_schema(self) -> str:
        in_files = [column for column in self.columns if column["name"] not in self.partition_types]
        return json.dumps({"type": "struct", "fields": in_files})

    @property
    def listing(self) -> str:
        """Names the list of files: another list, or a file that was changed, has another name."""
        told = [(each.file.path, each.file.bytes, each.file.changed, each.values) for each in self.files]
        return hashlib.sha256(repr(told).encode()).hexdigest()[:12]


def read_content(name: str, catalog: SparkCatalog, where: str | None, prune: Sequence[str]) -> TableContent:
    """List the files of the partitions that may hold rows for which `where` is true.

    Args:
        name: of the table, as `quote_table` takes it.
        where: see `read_condition`.
        prune: columns whose values in each file are wanted.

    Raises:
        TableError: see `describe`, `check_readable`, `shown_columns`, `read_condition`; a folder is not there, or its
            files lie where Spark does not read them all alike.
    """
    quoted = quote_table(name)
    found = describe(name, catalog, quoted)
    check_readable(name, found)
    try:
        columns = shown_columns(name, catalog.schema(quoted))
    except StatementError as error:
        raise refused(name, f"the columns of {quoted}", error) from error
    types = {each: _partition_type(name, each, columns) for each in found.partition_columns}
    listed = list_values(name, catalog, quoted, list(types)) if types else []
    chosen, condition = listed, None
    if where is not None:
        from airflow_abs.tables.catalog.pruning import condition_on

        understood = condition_on(name, columns, types, where)
        condition = understood.rows
        if understood.partitions is not None:
            chosen = choose(name, catalog, types, listed, understood.partitions)
    partitions = [Partition((), found.location)]
    if types:
        partitions = locate_partitions(name, catalog, quoted, types, chosen)
    known = [spans(name, catalog, types, chosen, column) for column in prune]
    files = tuple(
        TableFile(file, values, tuple(each.get(values) for each in known))
        for file, values in _list(name, catalog, partitions, is_partitioned=bool(types))
    )
    return TableContent(found, columns, types, files, len(chosen), len(listed), condition)


def _partition_type(table: str, name: str, columns: Sequence[Mapping[str, Any]]) -> str:
    kind = next(column["type"] for column in columns if column["name"] == name)
    if isinstance(kind, str) and (kind in _TYPES or kind.startswith("decimal(")):
        return kind
    raise TableError(
        f"table {table}: is partitioned by {name!r}, which is {kind}; expected a string, a number, a boolean, a date "
        "or a time. Read a copy of the table that is partitioned by something else"
    )


def _list(
    table: str, catalog: SparkCatalog, partitions: Sequence[Partition], *, is_partitioned: bool
) -> list[tuple[StoredFile, tuple[str | None, ...]]]:
    """The files right in the partitions' folders, by path."""
    by_folder: dict[str, Partition] = {}
    for partition in partitions:
        folder = partition.location.rstrip("/")
        if (other := by_folder.setdefault(folder, partition)) is not partition:
            raise TableError(
                f"table {table}: its partitions {other.values} and {partition.values} have one folder, {folder}, "
                "whose rows would be read only once; give each a folder of its own (ALTER TABLE ... PARTITION ... SET "
                "LOCATION)"
            )
    if not by_folder:
        return []
    try:
        stored = sorted(catalog.list_files(sorted(by_folder)), key=lambda file: file.path)
    except StatementError as error:
        raise TableError(
            f"table {table}: Spark cannot list the folders of its files: {error}; make the folder that it names, or "
            "drop the partition from the catalog (ALTER TABLE ... DROP PARTITION)"
        ) from error
    if not is_partitioned:
        _check_flat(table, next(iter(by_folder)), stored)
    return [(file, by_folder[file.folder].values) for file in stored if file.folder in by_folder and file.bytes]


def _check_flat(table: str, folder: str, files: Sequence[StoredFile]) -> None:
    below = (file.folder.removeprefix(folder).lstrip("/") for file in files)
    if found := next((each for each in below if "=" in each), None):
        raise TableError(
            f"table {table}: is not partitioned in the catalog, and its folder {folder} holds {found!r}, which Spark "
            f"takes for a partition; remove it, or read Files({folder!r})"
        )
