"""One table of PostgreSQL and its ledger in memory: it understands the statements of a publication, and no others.

Transactions are at isolation level repeatable read: all of one see what was committed when its first query ran. Who is
about to write what another one has written waits for that one's end, and fails if it has committed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest import mock

import psycopg2.errors

from airflow_abs.tables.postgres.publish import TransactionPublication
from tests.model.table_formats import History

Step = Callable[[], None]

OID = 16384
_PATIENCE = 100
Key = tuple[str, str]


@dataclass
class Database:
    """`xmins` is by row, which is a name; `ledger` by table and run. `locks` are held by transactions under way, of
    which `users` have looked at the table and `writers` changed it."""

    history: History
    name: str = "public.t"
    xmins: dict[str, int] = field(default_factory=dict)
    ledger: dict[Key, tuple[Any, ...]] = field(default_factory=dict)
    locks: dict[Any, Session] = field(default_factory=dict)
    writers: list[Session] = field(default_factory=list)
    users: list[Session] = field(default_factory=list)
    transactions: int = 700

    def append(self, row: str) -> None:
        """By another client, in a transaction of its own."""
        self.transactions += 1
        self.xmins[row] = self.transactions
        self.history.commit(self.history.current, [row])


class Session:
    """A connection, whose cursor it is as well."""

    def __init__(self, database: Database, step: Step, on_snapshot: Step) -> None:
        self.database, self.step, self.on_snapshot = database, step, on_snapshot
        self.staged: list[str] = []
        self.rowcount = -1
        self._forget()

    def _forget(self) -> None:
        self._xmins: dict[str, int] | None = None
        self._ledger: dict[Key, tuple[Any, ...]] = {}
        self._added: list[str] = []
        self._removed: list[str] = []
        self._noted: dict[Key, tuple[Any, ...] | None] = {}
        self._number = 0

    @contextmanager
    def cursor(self) -> Iterator[Session]:
        yield self

    def execute(self, statement: str, values: tuple[Any, ...] | None) -> None:
        self.step()
        text, given = " ".join(statement.split()), values or ()
        for pattern, answer in self._known():
            if found := re.match(pattern, text):
                self._found = answer(found, given) or []
                return
        raise AssertionError(f"unknown statement: {text}")

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._found

    def fetchone(self) -> tuple[Any, ...]:
        return self._found[0]

    def commit(self) -> None:
        self.step()
        database = self.database
        for row in self._removed:
            del database.xmins[row]
        database.xmins |= dict.fromkeys(self._added, self._number)
        for key, entry in self._noted.items():
            if entry is None:
                database.ledger.pop(key, None)
            else:
                database.ledger[key] = entry
        if self._added or self._removed:
            database.history.commit(database.history.current, self._added, self._removed, {"by": "a run"})
        self.rollback()

    def rollback(self) -> None:
        database = self.database
        database.locks = {key: holder for key, holder in database.locks.items() if holder is not self}
        database.writers = [each for each in database.writers if each is not self]
        database.users = [each for each in database.users if each is not self]
        self._forget()

    def use(self, table: str) -> None:
        """Nobody renames it until this transaction ends.

        Raises:
            psycopg2.errors.UndefinedTable: somebody has.
        """
        self.step()
        if table != self.database.name:
            raise psycopg2.errors.UndefinedTable(f"relation {table} does not exist")
        self.database.users = [*self.database.users, self]

    def _known(self) -> list[tuple[str, Callable[[re.Match[str], tuple[Any, ...]], Any]]]:
        nothing = lambda found, given: []  # noqa: E731
        return [
            (r"SELECT c\.oid", lambda found, given: self._look_up(given[0])),
            (r"SELECT WHERE EXISTS .*'generation'|SELECT WHERE EXISTS", lambda found, given: [()]),
            (r"SELECT n\.nspname", lambda found, given: [("public",)]),
            (r"SELECT target, run, .* WHERE target_oid = %s OR target = %s", lambda found, given: self._entries(given)),
            (r"WITH RECURSIVE own", nothing),
            (r"SET LOCAL", nothing),
            (r"LOCK TABLE", lambda found, given: self._lock_table()),
            (r"WITH gone AS \(DELETE FROM \S+ WHERE (.*) RETURNING", lambda found, given: self._delete(found[1])),
            (r"SELECT count\(\*\) FROM \S+ WHERE (.*)", lambda found, given: [(len(self._rows(found[1])),)]),
            (
                r"INSERT INTO \S*airflow_abs_runs",
                lambda found, given: self._note(given[:2], given[2:]),
            ),
            (r"INSERT INTO", lambda found, given: self._insert()),
            (r"UPDATE \S*airflow_abs_runs", lambda found, given: self._take(given)),
            (r"DELETE FROM \S*airflow_abs_runs", lambda found, given: self._note(given, None)),
            (r"SELECT pg_current_xact_id", lambda found, given: [(self._transaction(),)]),
        ]

    def _look_up(self, name: str) -> list[tuple[Any, ...]]:
        return [(OID, name, "r", "public", 0)] if name == self.database.name else []

    def _see(self) -> None:
        if self._xmins is None:
            self._xmins, self._ledger = dict(self.database.xmins), dict(self.database.ledger)
            self.on_snapshot()

    def _entries(self, given: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        self._see()
        return [
            (target, run, oid, digest, rows, number, number, generation)
            for (target, run), (oid, digest, rows, number, generation) in self._ledger.items()
            if oid == given[0] or target == given[1]
        ]

    def _transaction(self) -> int:
        if not self._number:
            self.database.transactions += 1
            self._number = self.database.transactions
        return self._number

    def _wait(self, is_free: Callable[[], bool]) -> None:
        for _ in range(_PATIENCE):
            if is_free():
                return
            self.step()
        raise psycopg2.errors.LockNotAvailable("canceling statement due to lock timeout")

    def _lock_table(self) -> None:
        database = self.database
        self._wait(lambda: {database.locks.get("table", self), *database.writers} == {self})
        self.database.locks["table"] = self
        self._see()

    def _write(self) -> None:
        self._see()
        self._wait(lambda: self.database.locks.get("table", self) is self)
        self.database.writers = [*self.database.writers, self]

    def _lock(self, key: Any, is_as_seen: Callable[[], bool]) -> None:
        self._wait(lambda: self.database.locks.get(key, self) is self)
        if not is_as_seen():
            raise psycopg2.errors.SerializationFailure("could not serialize access due to concurrent update")
        self.database.locks[key] = self

    def _rows(self, condition: str) -> dict[str, int]:
        self._see()
        assert self._xmins is not None
        wanted = {int(number) for number in re.findall(r"xmin = '(\d+)'", condition)}
        every = "true" in condition
        return {row: xmin for row, xmin in self._xmins.items() if every or xmin in wanted}

    def _delete(self, condition: str) -> list[tuple[int, int]]:
        self._write()
        rows = self._rows(condition)
        for row in rows:
            self._lock(row, lambda row=row: row in self.database.xmins)
        self._removed = list(rows)
        return list(Counter(rows.values()).items())

    def _insert(self) -> None:
        self._write()
        self._transaction()
        self._added = self.staged
        self.rowcount = len(self.staged)

    def _note(self, key: tuple[Any, ...], entry: tuple[Any, ...] | None) -> None:
        target, run = key
        self._see()
        self._lock((target, run), lambda: self.database.ledger.get((target, run)) == self._ledger.get((target, run)))
        if entry is not None:
            oid, digest, rows, generation = entry
            entry = (oid, digest, rows, self._transaction(), generation)
        self._noted[target, run] = entry

    def _take(self, given: tuple[Any, ...]) -> None:
        gone, digest, target, run = given
        oid, _, rows, number, generation = self._ledger[target, run]
        self._note((target, run), (oid, digest, rows - gone, generation))
        self._noted[target, run] = (oid, digest, rows - gone, number, generation)


class SqlPublication(TransactionPublication):
    """Whose rows need not be copied: there are as many as `RunFiles.files`, which are their names."""

    def _columns(self, connection: Any, relation: Any) -> list[Any]:
        return [SimpleNamespace(name="id")]

    def _stage(self, connection: Any, relation: Any, columns: Any) -> int:
        connection.use(relation.sql)
        connection.staged = list(self.run.files)
        return len(connection.staged)


@contextmanager
def sessions_in_memory() -> Iterator[None]:
    """Connections are those that a publication's properties open."""

    def open_transaction(table: str, properties: Any, *, readonly: bool = False) -> Any:
        return properties["open"]()

    with mock.patch("airflow_abs.tables.postgres.publish.open_transaction", open_transaction):
        yield
