"""What a table's protocol asks of readers and writers, and what of it is kept here. What is not known is refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.publish.target_table import TableMode
from airflow_abs.tables.delta.columns import Field, mapping_mode, stored_fields
from airflow_abs.tables.errors import TableError, first_line

if TYPE_CHECKING:
    from deltalake import DeltaTable

_DELETION_VECTORS = "deletionVectors"
_READ = frozenset(
    {
        "columnMapping",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        _DELETION_VECTORS,  # as long as there are none
        "typeWidening",  # as long as nothing was widened
        "typeWidening-preview",
        "variantType",  # as long as no column is one
        "variantType-preview",
    }
)
_WRITTEN = _READ | {
    "appendOnly",
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "identityColumns",
    "allowColumnDefaults",
    "changeDataFeed",  # readers of it make the changes of whole files from the log
    "domainMetadata",
}
_NAMED_READERS, _NAMED_WRITERS = 3, 7
"""The versions of the protocol since which features have names."""

_OF_COLUMNS = {
    "delta.generationExpression": "is generated from others",
    "delta.identity.start": "is an identity column",
    "delta.invariants": "has an invariant",
}


def check_readable(name: str, table: DeltaTable) -> None:
    """Spark's Parquet reader gives the rows of the table's files as they are.

    Raises:
        TableError: it would not.
    """
    protocol = table.protocol()
    asked = set(protocol.reader_features or ()) if protocol.min_reader_version >= _NAMED_READERS else set()
    if unknown := sorted(asked - _READ):
        raise TableError(
            f"table {name}: it requires the reader features {', '.join(unknown)}, which airflow_abs does not "
            "support; read a copy of the "
            "table, or drop the feature (ALTER TABLE ... DROP FEATURE)"
        )
    if _DELETION_VECTORS in asked and (files := _with_vectors(name, table)):
        raise TableError(
            f"table {name}: version {table.version()} deletes rows of {format_count(len(files), 'file')} by deletion "
            f"vectors (such as {files[0]}), which Spark's Parquet reader would show; purge them first (REORG TABLE ... "
            "APPLY (PURGE)), and set delta.enableDeletionVectors to false to keep them away"
        )


def check_writable(name: str, table: DeltaTable, mode: TableMode) -> None:
    """Files and one entry in the log are all that a writer of this table owes it.

    Raises:
        TableError: it owes more.
    """
    protocol = table.protocol()
    asked = set(protocol.writer_features or ()) if protocol.min_writer_version >= _NAMED_WRITERS else set()
    if unknown := sorted(asked - _WRITTEN):
        raise TableError(
            f"table {name}: it requires the writer features {', '.join(unknown)}, which airflow_abs does not "
            "support; publish to a table "
            "without it"
        )
    if (mapped := mapping_mode(table)) != "none":
        raise TableError(
            f"table {name}: maps its columns (delta.columnMapping.mode is {mapped!r}), which deltalake does not write "
            "to; publish to a table without column mapping"
        )
    settings = table.metadata().configuration
    if constraints := sorted(key for key in settings if key.startswith("delta.constraints.")):
        raise TableError(
            f"table {name}: has the constraint {constraints[0].rpartition('.')[2]!r} ({settings[constraints[0]]}), "
            "which this package does not check; declare it in the vertex's expect=, and publish to a table without it"
        )
    _check_columns(name, stored_fields(table))
    if mode != "append":
        check_removable(name, table)


def check_removable(name: str, table: DeltaTable) -> None:
    """Files of the table may be replaced.

    Raises:
        TableError: it takes new ones alone, or their removal would have to name deletion vectors.
    """
    if table.metadata().configuration.get("delta.appendOnly", "false").lower() == "true":
        raise TableError(
            f"table {name}: delta.appendOnly is true, and rows would have to be replaced; use mode 'append', and "
            "let no run be cleared and published again with other rows"
        )
    if _DELETION_VECTORS in (table.protocol().reader_features or ()) and _with_vectors(name, table):
        raise TableError(
            f"table {name}: has files with deletion vectors, which deltalake cannot replace; purge them first (REORG "
            "TABLE ... APPLY (PURGE)), or use mode 'append'"
        )


def _with_vectors(name: str, table: DeltaTable) -> list[str]:
    try:
        return list(pa.table(table.deletion_vectors())["filepath"].to_pylist())
    except Exception as error:  # of whatever the storage's kind brings
        raise TableError(f"table {name}: its deletion vectors cannot be read: {first_line(error)}") from error


def _check_columns(name: str, fields: Iterable[Field], *, inside: bool = False) -> None:
    """Only Delta's own engines compute or check values."""
    for field in fields:
        kind: Any = field["type"]
        if found := next((words for key, words in _OF_COLUMNS.items() if field["metadata"].get(key) is not None), None):
            raise TableError(
                f"table {name}: column {field['name']!r} {found}, which nothing would enforce; publish to a table in "
                "which it is an ordinary column"
            )
        if inside and not field["nullable"]:
            raise TableError(
                f"table {name}: field {field['name']!r} of a struct is NOT NULL, and readers by pyarrow fail where the "
                "struct itself is NULL; make it nullable"
            )
        _check_columns(name, _inside(kind), inside=True)


def _inside(kind: Any) -> list[Field]:
    """The fields of the structs in a type."""
    if isinstance(kind, str):
        return []
    match kind["type"]:
        case "array":
            return _inside(kind["elementType"])
        case "map":
            return [*_inside(kind["keyType"]), *_inside(kind["valueType"])]
    fields: list[Field] = kind["fields"]
    return fields
