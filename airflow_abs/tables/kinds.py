"""The kinds of table that a DAG may declare: ours by a word, all others by the path of their class.

A declaration becomes JSON, since Airflow renders its templates, and what `plan` found of it becomes a record that
`commit` reads on another worker. Both name the kind. A class of your own needs no registration: that the DAG
file imports it and puts it in a job is the registration, and no other class is ever loaded (`check_declared`).
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.tables.errors import TableError

CATALOG = "catalog"
"""The kind whose sinks are published by Spark's statements."""

FILES = "files"
"""The kind of `Files`, and of what names none."""

_OWN = {
    CATALOG: "airflow_abs.tables.catalog_table.Table",
    "delta": "airflow_abs.tables.delta_table.DeltaTable",
    FILES: "airflow_abs.exchange.sources.files.Files",
    "iceberg": "airflow_abs.tables.iceberg_table.IcebergTable",
    "postgres": "airflow_abs.tables.postgres_table.PostgresTable",
}
_WORDS = {path: word for word, path in _OWN.items()}

_DAG_FILES = "unusual_prefix_"
"""Airflow imports DAG files under names that begin so, which hold on one host only."""


def kind_of(table: object) -> str:
    """The word or the path by which workers find the class of a declared table.

    Raises:
        JobGraphError: they could not, as it is the class of a function, of a script or of a DAG file.
    """
    kind = type(table)
    path = f"{kind.__module__}.{kind.__qualname__}"
    if "." in kind.__qualname__ or kind.__module__ == "__main__" or kind.__module__.startswith(_DAG_FILES):
        raise JobGraphError(
            f"{kind.__qualname__}, a source or sink, is of module {kind.__module__!r}, and workers find it by its "
            "name; expected a class at the top of a module that they can import: put it into a package of its own"
        )
    return _WORDS.get(path, path)


def to_declared(table: Any) -> dict[str, Any]:
    """`Files` or a table as JSON, from which `read_declared` makes it again.

    Raises:
        JobGraphError: see `kind_of`.
    """
    return {**table.to_json(), "kind": kind_of(table)}


def class_of(kind: str) -> Any:
    """The class of a kind, which must be one that the DAG declared.

    Raises:
        TableError: it cannot be imported.
    """
    module, _, name = _OWN.get(kind, kind).rpartition(".")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TableError(
            f"tables of kind {kind!r} cannot be loaded: {error}; install the package that has their class where "
            "Airflow's workers run"
        ) from error


def check_declared(table: str, kind: str, declared: Collection[str]) -> None:
    """A class that a record names is loaded only if the DAG names it, too: writing to the exchange must not run code
    here.

    Raises:
        TableError: the DAG declares no table of the kind.
    """
    if kind not in declared:
        raise TableError(
            f"table {table}: was planned as one of kind {kind!r}, and the DAG declares "
            f"{', '.join(map(repr, sorted(declared))) or 'no table'}; nothing was published. Clear the task plan and "
            "everything after it"
        )
