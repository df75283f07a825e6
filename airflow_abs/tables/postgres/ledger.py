"""The ledger of runs: a table beside the ones that are published to, which says whose rows are in them.

A row of it is written in the transaction that publishes. It holds that transaction's number, which is the `xmin` of
every row that the run inserted, so that a run that was cleared can take back its rows without a column for it. The
table is known by its oid: it may have been renamed since, or moved to another schema, in which there is another ledger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.columns import quote
from airflow_abs.tables.postgres.connection import Connection, fetch_all, run
from airflow_abs.tables.postgres.relation import Relation

LEDGER = "airflow_abs_runs"

_CREATE = """
CREATE TABLE IF NOT EXISTS {ledger} (
    target text NOT NULL, run text NOT NULL, target_oid oid NOT NULL, digest text NOT NULL, rows bigint NOT NULL,
    transaction xid8 NOT NULL, published_at timestamptz NOT NULL DEFAULT now(),
    generation bigint NOT NULL DEFAULT 0, PRIMARY KEY (target, run))
"""
_HAS_GENERATION = """
SELECT WHERE EXISTS (
    SELECT FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attname = 'generation' AND NOT attisdropped)
"""
_COLUMNS = """
target, run, target_oid::int8, digest, rows, mod(transaction::text::numeric, 4294967296)::int8, transaction::text::int8,
coalesce((to_jsonb(entry) ->> 'generation')::int8, 0)
"""
_LEDGERS = """
SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %s AND c.relkind = 'r' AND has_schema_privilege(n.oid, 'USAGE')
    AND has_table_privilege(c.oid, 'SELECT')
"""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a run has in a table, which was called `target` then, and in which ledger that stands; `xmin` is that of its
    rows, `generation` that of the plan, see `Publisher`."""

    ledger: str
    target: str
    run: str
    oid: int
    digest: str
    rows: int
    xmin: int
    transaction: int
    generation: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Of one table.

    Args:
        target: the table.
        label: for messages.
    """

    target: Relation
    label: str

    @property
    def sql(self) -> str:
        return f"{quote(self.target.schema)}.{LEDGER}"

    def create(self, connection: Connection) -> None:
        """Create it unless it exists; commits.

        Raises:
            psycopg2.Error: the login may not.
        """
        if fetch_all(connection, _HAS_GENERATION, self.sql):
            connection.rollback()
            return
        # Of two that create at once, one would fail on an index of the catalog.
        fetch_all(connection, "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", self.sql)
        run(connection, _CREATE.format(ledger=self.sql))
        if not fetch_all(connection, _HAS_GENERATION, self.sql):  # made by an earlier version of this package
            run(connection, f"ALTER TABLE {self.sql} ADD COLUMN IF NOT EXISTS generation bigint NOT NULL DEFAULT 0")
        connection.commit()

    def entries_of(self, connection: Connection, publisher: Publisher) -> list[LedgerEntry]:
        """What a run has in the table.

        Raises:
            TableError: it had it in another table of this name.
        """
        found = [entry for entry in self._entries(connection) if publisher.owns(entry.run)]
        if any(entry.oid != self.target.oid for entry in found):
            raise TableError(
                f"table {self.label}: this run published to an earlier table of this name, and whether its rows are in "
                f"this one is not known; nothing was published. If they are not, delete the run's row in {self.sql} "
                "and run commit again"
            )
        return found

    def others(self, connection: Connection, publisher: Publisher) -> list[LedgerEntry]:
        """What other runs have in the table, in the order of their publication."""
        found = self._entries(connection)
        return [entry for entry in found if entry.oid == self.target.oid and not publisher.owns(entry.run)]

    def _entries(self, connection: Connection) -> list[LedgerEntry]:
        """Of the table, whatever it was called and in which schema it was then; and of others that were called so."""
        found = []
        for (schema,) in fetch_all(connection, _LEDGERS, LEDGER):
            ledger = f"{quote(schema)}.{LEDGER}"
            name = self.target.sql if ledger == self.sql else None
            statement = f"SELECT {_COLUMNS} FROM {ledger} entry WHERE target_oid = %s OR target = %s"  # noqa: S608
            rows = fetch_all(connection, statement, self.target.oid, name)
            found += [LedgerEntry(ledger, *row) for row in rows]
        return sorted(found, key=lambda entry: entry.transaction)

    def write(
        self, connection: Connection, publisher: Publisher, digest: str, rows: int, before: Iterable[LedgerEntry]
    ) -> None:
        """That this transaction publishes the run's rows, in the place of what it had `before`."""
        place = (self.sql, self.target.sql, publisher.identity)
        for entry in before:
            if (entry.ledger, entry.target, entry.run) != place:
                _delete(connection, entry)
        statement = f"""
            INSERT INTO {self.sql} (target, run, target_oid, digest, rows, transaction, generation)
            VALUES (%s, %s, %s, %s, %s, pg_current_xact_id(), %s)
            ON CONFLICT (target, run) DO UPDATE SET target_oid = EXCLUDED.target_oid, digest = EXCLUDED.digest,
                rows = EXCLUDED.rows, transaction = EXCLUDED.transaction, generation = EXCLUDED.generation,
                published_at = now()
        """  # noqa: S608 - names are quoted
        values = (publisher.identity, self.target.oid, digest, rows, publisher.generation)
        run(connection, statement, self.target.sql, *values)

    def take_out(self, connection: Connection, entries: Mapping[LedgerEntry, int]) -> None:
        """Record that these rows of other runs are gone. A run with rows left gets another digest, so that it publishes
        again if it is repeated; a run without rows is over, and its plans keep their order."""
        for entry, gone in entries.items():
            digest = "" if gone < entry.rows else entry.digest
            change = f"UPDATE {entry.ledger} SET rows = rows - %s, digest = %s WHERE target = %s AND run = %s"  # noqa: S608
            run(connection, change, gone, digest, entry.target, entry.run)


def _delete(connection: Connection, entry: LedgerEntry) -> None:
    statement = f"DELETE FROM {entry.ledger} WHERE target = %s AND run = %s"  # noqa: S608 - names are quoted
    run(connection, statement, entry.target, entry.run)
