"""A table as `plan` found it that a sink's rows are to be committed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TableMode = Literal["append", "overwrite", "overwrite_partitions"]


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """One partition value of the files, as a column besides the table's own that becomes a folder.

    Args:
        column: its name while Spark writes.
        expression: SQL of the value, in the table format's own terms (days of a date) and as a text; NULL stays.
        kind: of the value, in the words of the format (``int``, ``string``, ...).
    """

    column: str
    expression: str
    kind: str


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table, its columns and its partitions.

    Args:
        table: its name, with that of its catalog.
        conn_id: the Airflow connection of the catalog.
        mode: what happens to the rows that are there.
        uuid: of the table, which a table of the same name that is made anew does not have.
        parts: the same of its partitions, where these are tables of their own.
        folder: of its files; empty if only its server reads them.
        schema: Spark's JSON of its columns, with the metadata that the files have to carry.
        required: top-level columns in which no row may be NULL.
        required_inside: and what must not be NULL inside of columns, each as the names on the way there: those of
            fields, ``element`` of a list, ``key`` and ``value`` of a map.
        partitions: in order.
        settings: of every session that writes it.
        not_in_files: columns whose values stand elsewhere, and not in the files.
        sort_by, files: as in `Files`.
        details: what its format needs to know besides when it is published to, as JSON values.
        kind: by which its class is found, see `airflow_abs.tables.kinds`; whoever asks a sink for its target sets it.
    """

    table: str
    conn_id: str
    mode: TableMode
    uuid: str
    schema: str
    required: tuple[str, ...] = ()
    partitions: tuple[TargetPartition, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    sort_by: tuple[str, ...] = ()
    files: int | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    kind: str = ""
    not_in_files: tuple[str, ...] = ()
    required_inside: tuple[tuple[str, ...], ...] = ()
    parts: tuple[str, ...] = ()
    folder: str = ""

    @property
    def ids(self) -> frozenset[str]:
        """Of all tables to which its rows go."""
        return frozenset(filter(None, (self.uuid, *self.parts)))

    @property
    def partition_by(self) -> tuple[str, ...]:
        """The columns that become folders."""
        return tuple(partition.column for partition in self.partitions)

    @property
    def format(self) -> str:
        return "parquet"

    @property
    def options(self) -> dict[str, str]:
        """Of Spark's writer."""
        return {"compression": "zstd"}
