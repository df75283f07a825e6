"""Connections to PostgreSQL, and what goes wrong with them in words that hold no password."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg2

from airflow_abs.tables.errors import TableError

Connection = Any
"""psycopg2's."""

_DEFAULTS = {"connect_timeout": "10", "application_name": "airflow_abs", "client_encoding": "UTF8"}


@contextmanager
def open_transaction(table: str, properties: Mapping[str, str], *, readonly: bool = False) -> Iterator[Connection]:
    """A connection whose statements are one transaction at isolation level repeatable read: all see one snapshot, which
    the first one takes. It is rolled back if the block does not commit it.

    Args:
        table: for messages.
        properties: libpq's, see `airflow_abs.hooks.catalogs`.
        readonly: whether the server is to refuse writes.

    Raises:
        TableError: the properties are not those of a PostgreSQL server, or it refuses.
    """
    if "dbname" not in properties:
        raise TableError(
            f"table {table}: its Airflow connection names no PostgreSQL database; expected one of the type postgres, "
            "with host, login, password and, as its schema, the database"
        )
    try:
        connection = psycopg2.connect(**{**_DEFAULTS, **properties})
    except psycopg2.Error as error:
        raise TableError(
            f"table {table}: PostgreSQL cannot be reached: {reason_of(error, properties)}; check the Airflow "
            "connection, whose extra may hold libpq's options only"
        ) from None  # the cause's text is not ours to vouch for
    with closing(connection):
        connection.set_session(isolation_level="REPEATABLE READ", readonly=readonly)
        yield connection


def reason_of(error: psycopg2.Error, properties: Mapping[str, str]) -> str:
    """What the server says, in one line and without the password."""
    text = " ".join(str(error).split())
    password = properties.get("password")
    return text.replace(password, "***") if password else text


@contextmanager
def refusals(table: str, properties: Mapping[str, str], doing: str, advice: str) -> Iterator[None]:
    """What the server refuses becomes a `TableError`: that it could not be ``doing``, and what to do."""
    try:
        yield
    except psycopg2.Error as error:
        raise TableError(f"table {table}: cannot be {doing}: {reason_of(error, properties)}; {advice}") from None


def fetch_one(connection: Connection, statement: str, *values: Any) -> tuple[Any, ...]:
    """The one row of a query that always has one."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        row: tuple[Any, ...] = cursor.fetchone()
        return row


def fetch_all(connection: Connection, statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def run(connection: Connection, statement: str, *values: Any) -> int:
    """Rows that the statement changed; values are only looked for if there are some, so `%` is itself elsewhere."""
    with connection.cursor() as cursor:
        cursor.execute(statement, values or None)
        return int(cursor.rowcount)
