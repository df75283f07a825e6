"""Which relation a declaration means, and whether its rows can be parted by where they lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.connection import Connection, fetch_all, fetch_one, run

_LOOK_UP = """
SELECT c.oid::int8, format('%%I.%%I', n.nspname, c.relname), c.relkind::text, n.nspname,
       CASE WHEN c.relkind = 'r' AND NOT c.relhassubclass AND am.amname = 'heap'
            THEN pg_relation_size(c.oid) / current_setting('block_size')::int8 ELSE 0 END
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am am ON am.oid = c.relam
WHERE c.oid = to_regclass(%s)
"""

_WITH_PARTITIONS = """
WITH RECURSIVE own AS (SELECT %s::oid AS oid UNION SELECT inhrelid FROM pg_inherits JOIN own ON inhparent = own.oid)
SELECT oid::int8 FROM own ORDER BY 1
"""
_TAKEN_ALONG = """
WITH RECURSIVE own AS (SELECT %s::oid AS oid UNION SELECT inhrelid FROM pg_inherits JOIN own ON inhparent = own.oid)
SELECT DISTINCT format('%%I.%%I', n.nspname, c.relname)
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE k.contype = 'f' AND k.confdeltype IN ('c', 'n', 'd') AND k.confrelid IN (SELECT oid FROM own)
    AND k.conparentid = 0 AND NOT (%s AND k.conrelid IN (SELECT oid FROM own))
ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, view or query.

    Args:
        sql: what stands after FROM.
        oid: of a table or view; a recreated one has another; 0 for a query.
        kind: PostgreSQL's letter; "" for a query.
        schema: that it is in.
        pages: of an ordinary table; 0 for all else, whose rows lie in several places.
    """

    sql: str
    oid: int = 0
    kind: str = ""
    schema: str = ""
    pages: int = 0

    @property
    def is_table(self) -> bool:
        return self.kind in ("r", "p")


def find_relation(connection: Connection, label: str, table: str) -> Relation:
    """Look up a table or view.

    Raises:
        TableError: there is none of this name.
    """
    found = fetch_all(connection, _LOOK_UP, table)
    if not found:
        raise TableError(
            f"table {label}: there is no such table or view, or the login may not see it; expected schema.table as "
            "PostgreSQL takes it: names with capitals need double quotes"
        )
    oid, sql, kind, schema, pages = found[0]
    return Relation(sql, oid, kind, schema, pages)


def check_alone(connection: Connection, label: str, relation: Relation, *, whole: bool) -> None:
    """Rows of a table can be deleted without touching those of others.

    Args:
        whole: whether all rows are deleted, which may then refer to each other.

    Raises:
        TableError: foreign keys of other tables delete or change their rows with them; names these tables.
    """
    taken = [name for (name,) in fetch_all(connection, _TAKEN_ALONG, relation.oid, whole)]
    if taken:
        raise TableError(
            f"table {label}: replacing its rows deletes or changes rows of {', '.join(taken)}, whose foreign keys to "
            "it are ON DELETE CASCADE, SET NULL or SET DEFAULT; nothing was published. Make these keys DEFERRABLE "
            "INITIALLY DEFERRED without ON DELETE, which asks for the rows again at the end of the transaction, or "
            "publish to a table that no other refers to"
        )


def identity_of(connection: Connection, properties: Mapping[str, str], relation: Relation) -> str:
    """Identifies the table: a recreated one of the same name has another value; empty for a query."""
    return "".join(_identities(connection, properties, [relation.oid] if relation.oid else []))


def identities_with_partitions(
    connection: Connection, properties: Mapping[str, str], relation: Relation
) -> tuple[str, ...]:
    """Those of a table and of all partitions of it, which hold its rows."""
    return _identities(
        connection, properties, [oid for (oid,) in fetch_all(connection, _WITH_PARTITIONS, relation.oid)]
    )


def identities_in(connection: Connection, properties: Mapping[str, str], plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Those of all tables that a query reads, also through views.

    Args:
        plan: of the query, from ``EXPLAIN (VERBOSE, FORMAT JSON)``. What functions read is not in it.
    """
    named = sorted({(node["Schema"], node["Relation Name"]) for node in _nodes(plan) if "Relation Name" in node})
    look_up = "SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))::oid::int8"
    found = [fetch_one(connection, look_up, *names)[0] for names in named]
    return _identities(connection, properties, [oid for oid in found if oid is not None])


def _nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def _identities(connection: Connection, properties: Mapping[str, str], oids: Sequence[int]) -> tuple[str, ...]:
    if not oids:
        return ()
    (database,) = fetch_one(connection, "SELECT current_database()")
    server = _server(connection) or f"{properties.get('host', '')}:{properties.get('port', '')}"
    return tuple(f"{server}/{database}/{oid}" for oid in oids)


def _server(connection: Connection) -> str | None:
    """What is the same by whatever address it is reached; None if the login may not ask."""
    (may,) = fetch_one(connection, "SELECT has_function_privilege(to_regprocedure('pg_control_system()'), 'EXECUTE')")
    return str(fetch_one(connection, "SELECT system_identifier FROM pg_control_system()")[0]) if may else None


def lock_relation(connection: Connection, label: str, table: str) -> Relation:
    """Look it up, and keep others from truncating or rewriting it as long as the transaction lasts; they may write.

    The lock comes before the transaction's first SELECT, so before its snapshot: TRUNCATE and CLUSTER do not heed it.

    Raises:
        TableError: there is none of this name.
        psycopg2.Error: it may not be read, or is locked for long.
    """
    before = find_relation(connection, label, table)
    connection.rollback()
    run(connection, "SET LOCAL lock_timeout = '60s'")
    if before.is_table:
        run(connection, f"LOCK TABLE {before.sql} IN ACCESS SHARE MODE")
    return find_relation(connection, label, table)
