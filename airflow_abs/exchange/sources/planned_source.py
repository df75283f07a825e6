"""What a vertex reads, as `plan` found it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.sources.pruned_by import PrunedBy


@dataclass(frozen=True, slots=True, order=True)
class SourceColumn:
    """A column of the source of this name, see `PlannedSource`."""

    source: str
    column: str


@dataclass(frozen=True, slots=True)
class TakenFiles:
    """What `plan` took of an incremental source: the digest of the run's own files, and the vertices whose sinks their
    rows reach. The files are listed in a record of their own."""

    digest: str
    sinks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedSource:
    """What a vertex reads: `files` that `decide` lists, or a `table` whose files `plan` listed; one of the two is None.
    From an incremental source `plan` has `taken` files, and `decide` lists none.

    `schema` is Spark's JSON form. `left_out` are the partitions (``ds=2026-01-01/hour=3``) from which the vertex'
    filters let no row through. Partitions that arrive after `plan` are read, because only of these is it known that
    nothing is lost. `pruned_by` says what `decide` also prunes by.
    """

    name: str
    placeholder: str
    files: Files | None
    schema: str
    left_out: tuple[str, ...] = ()
    table: PinnedTable | None = None
    taken: TakenFiles | None = None
    pruned_by: tuple[PrunedBy, ...] = ()

    @property
    def columns(self) -> list[str]:
        """Names of its columns, in order."""
        return column_names(self.schema)

    @property
    def label(self) -> str:
        """The path, or the table and its version."""
        if self.table is not None:
            return self.table.label
        return self.files.path if self.files is not None else ""

    def type_of(self, column: str) -> Any:
        """Spark's JSON of a column's type."""
        return next(field["type"] for field in json.loads(self.schema)["fields"] if field["name"] == column)

    def describe_columns(self) -> str:
        """``id integer, tags array``: names and types of its columns, in order."""
        fields = [(field["name"], field["type"]) for field in json.loads(self.schema)["fields"]]
        return ", ".join(f"{name} {kind if isinstance(kind, str) else kind['type']}" for name, kind in fields)


def vertex_of(source: str) -> str:
    """The vertex that reads the source of this name."""
    return source.rpartition(".")[0]


def column_names(schema: str) -> list[str]:
    """The names in a schema in Spark's JSON form, in order."""
    return [field["name"] for field in json.loads(schema)["fields"]]
