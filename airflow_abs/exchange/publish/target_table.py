"""A table as `plan` found it that a sink's rows are to be committed to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

TableMode = Literal["append", "overwrite", "overwrite_partitions"]


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """One partition value of the files: an extra column that becomes a folder.

    Args:
        column: its name while Spark writes.
        expression: SQL for the value as text, in the table format's own terms (days of a date); NULL stays NULL.
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
        conn_id: the Airflow connection to the catalog.
        mode: what happens to existing rows.
        uuid: identifies the table; a recreated table of the same name has another one.
        parts: the same of its partitions, where these are tables of their own.
        folder: where its files are; empty if only its server reads them.
        schema: Spark's JSON of its columns, with the metadata that its files must have.
        required: top-level columns that must not be NULL.
        required_inside: what must not be NULL inside columns, each as a path of field names, ``element`` for a list,
            ``key`` and ``value`` for a map.
        partitions: in order.
        settings: for every session that writes it.
        not_in_files: columns whose values are not in the files.
        sort_by, files: as in `Files`.
        details: what else its format needs to know for a publication, as JSON values.
        kind: which finds its class, see `airflow_abs.tables.kinds`; set by the caller of `target`.
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
