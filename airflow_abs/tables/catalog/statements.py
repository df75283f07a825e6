"""What is asked of Spark about the tables of its catalog; `airflow_abs.spark` has the session that answers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_abs.core.sql_names import quote
from airflow_abs.tables.errors import TableError

_NAME = re.compile(r"\w+|`(?:[^`]|``)+`")
_PLAIN = re.compile(r"[\w .,:;/+*%()\[\]{}=<>!?@#&|~^-]*", re.ASCII)
_MOST_PARTS = 3


class StatementError(Exception):
    """Spark refuses a statement; `condition` is its class of errors, such as ``TABLE_OR_VIEW_NOT_FOUND``."""

    def __init__(self, message: str, condition: str = "") -> None:
        super().__init__(message)
        self.condition = condition


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file as Spark finds it: its path as Hadoop writes it (``file:/lake/a b``), bytes, and when it was last changed
    in milliseconds since 1970."""

    path: str
    bytes: int
    changed: int

    @property
    def folder(self) -> str:
        return self.path.rpartition("/")[0]


class SparkCatalog(Protocol):
    """A session on the job's Spark; may be called by several threads."""

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """What a statement answers that changes nothing: it may be sent more than once.

        Raises:
            StatementError: Spark refuses it, or failed.
            Exception: the server is lost; the client's own error, for which the task is retried.
        """

    def run(self, statement: str) -> None:
        """Do what changes something, once; errors as `rows`."""

    def schema(self, table: str) -> str:
        """Spark's JSON of a table's columns; errors as `rows`."""

    def list_files(self, folders: Sequence[str]) -> list[StoredFile]:
        """The files below folders, those whose names hide them left out; errors as `rows`, also if one is not there."""


def quote_table(name: str) -> str:
    """A table's name, ``db.name`` or with names in backticks, with all its parts in backticks.

    Raises:
        ValueError: it is none.
    """
    parts = _NAME.findall(name)
    if ".".join(parts) != name or not 0 < len(parts) <= _MOST_PARTS:
        raise ValueError(
            f"Table({name!r}): expected the name of a table in Spark's catalog, such as 'sales.orders'; names with "
            "characters other than letters, digits and _ need backticks"
        )
    return ".".join(part if part.startswith("`") else quote(part) for part in parts)


def partition_clause(values: Mapping[str, str | None]) -> str:
    """``PARTITION (`day` = '2026-01-01', `region` = NULL)`` of a partition's values as texts."""
    return f"PARTITION ({', '.join(f'{quote(name)} = {_literal(text)}' for name, text in values.items())})"


def string_literal(text: str) -> str:
    """A text where only a literal may stand, and no expression."""
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    return "'" + "".join(char if _PLAIN.fullmatch(char) else _escaped(char) for char in text) + "'"


def ask(table: str, catalog: SparkCatalog, statement: str) -> list[tuple[Any, ...]]:
    """The rows of a statement about a table.

    Raises:
        TableError: Spark refuses it.
    """
    try:
        return catalog.rows(statement)
    except StatementError as error:
        raise refused(table, statement, error) from error


def refused(table: str, statement: str, error: StatementError) -> TableError:
    """What to tell of a statement that Spark has refused."""
    return TableError(
        f"table {table}: Spark refuses {statement[:200]!r}: {error}; check that the catalog answers and that the "
        "job's user may do this, and clear the task"
    )


def _literal(text: str | None) -> str:
    return "NULL" if text is None else string_literal(text)


def _escaped(char: str) -> str:
    number = ord(char)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"
