"""A table's rows, copied into the exchange: all of one snapshot, by several connections where the table allows it.

PostgreSQL keeps no version of a table for longer than a transaction lasts, and a subtask may be tried again tomorrow.
So what the run reads is a copy, and the files of that copy are what `plan` fixes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.sources.listing import SourceFile
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.postgres.columns import Column, choose, describe, read_columns
from airflow_abs.tables.postgres.connection import Connection, fetch_one, open_transaction, refusals, run
from airflow_abs.tables.postgres.copying import copy_out
from airflow_abs.tables.postgres.landed_files import LandedFiles
from airflow_abs.tables.postgres.relation import Relation, identities_in, identity_of, lock_relation

log = logging.getLogger(__name__)

CONNECTIONS = 4
"""That copy one table side by side."""

LEAST_PAGES, MOST_RANGES = 256, 1024
"""A range has at least 2 MiB of a table, and a table at most this many ranges."""

_FIRST_WITH_TID_RANGES = 140000
_INFERENCE_SECONDS = 60
_SNAPSHOT = """
SELECT pg_export_snapshot(), to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
"""
_ADVICE = "check the table, where= and query=, and the rights of the connection's login"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a source reads: a table's name or a query, and of it these columns and rows."""

    label: str
    table: str | None
    query: str | None
    where: str | None
    columns: tuple[str, ...]
    as_text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Landed:
    """`version` is when the snapshot was taken, in UTC; `uuid` is the table's, see `identity_of`, and `tables` are
    those whose rows these are."""

    columns: tuple[Column, ...]
    version: str
    files: tuple[SourceFile, ...]
    uuid: str = ""
    tables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Copy:
    """What all connections have in common."""

    wanted: Wanted
    relation: Relation
    columns: tuple[Column, ...]
    folder: ExchangePath

    def select(self, tids: str | None = None) -> str:
        conditions = [f"(\n{each}\n)" for each in (self.wanted.where, tids) if each is not None]
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        names = ", ".join(column.selected for column in self.columns)
        return f"SELECT {names} FROM {self.relation.sql} AS rows{where}"  # noqa: S608 - the author's own SQL

    def copy(self, connection: Connection, number: int, tids: str | None = None) -> list[SourceFile]:
        files = LandedFiles(self.folder, number, self.columns)
        for batch in copy_out(connection, self.wanted.label, self.select(tids), self.columns):
            files.write(batch)
        return files.close()


def land(wanted: Wanted, properties: Mapping[str, str], folder: ExchangePath) -> Landed:
    """Copy what is wanted into Parquet files in a new folder of the exchange.

    Raises:
        TableError: the table is not there, or not as it was declared; or PostgreSQL refuses.
        ExchangeUnreachableError: the exchange cannot be written to.
    """
    with (
        refusals(wanted.label, properties, "read", _ADVICE),
        open_transaction(wanted.label, properties, readonly=True) as connection,
    ):
        if wanted.query is not None:
            relation = Relation(f"(\n{wanted.query}\n)")
        else:
            relation = lock_relation(connection, wanted.label, str(wanted.table))
        run(connection, f"SET LOCAL statement_timeout = '{_INFERENCE_SECONDS}s'")
        run(connection, "SET LOCAL idle_in_transaction_session_timeout = 0")
        described = choose(wanted.label, describe(connection, relation.sql), wanted.columns)
        copy = _Copy(wanted, relation, tuple(read_columns(wanted.label, described, wanted.as_text)), folder)
        ranges = tid_ranges(relation.pages) if connection.server_version >= _FIRST_WITH_TID_RANGES else [None]
        tables = identities_in(connection, properties, _explain(connection, copy, len(ranges)))
        snapshot, version = fetch_one(connection, _SNAPSHOT)
        uuid = identity_of(connection, properties, relation)
        run(connection, "SET LOCAL statement_timeout TO DEFAULT")
        files = copy.copy(connection, 0) if len(ranges) == 1 else _copy_ranges(copy, ranges, snapshot, properties)
    return Landed(copy.columns, version, tuple(files), uuid, tables)


def tid_ranges(pages: int) -> list[str | None]:
    """Conditions that part a table's rows by where they lie, each row in one of them; none for a small table.

    Args:
        pages: of the table; 0 where rows cannot be told apart so.
    """
    step = max(LEAST_PAGES, ceil(pages / MOST_RANGES))
    starts = list(range(0, pages, step))
    if len(starts) < 2:
        return [None]
    below: list[str | None] = [f"ctid < '({stop},0)'::tid" for stop in starts[1:]]
    from_here = [f"ctid >= '({start},0)'::tid" for start in starts]
    # the last one has no end: whatever the table holds beyond what it held a moment ago
    return [" AND ".join(filter(None, each)) for each in zip(from_here, [*below, None], strict=True)]


def _copy_ranges(
    copy: _Copy, ranges: Sequence[str | None], snapshot: str, properties: Mapping[str, str]
) -> list[SourceFile]:
    """Each connection takes the next range until there is none; all see the snapshot, whose owner waits."""
    waiting: SimpleQueue[tuple[int, str | None]] = SimpleQueue()
    for each in enumerate(ranges):
        waiting.put(each)
    failed = Event()

    def work(_: int) -> list[tuple[int, list[SourceFile]]]:
        done = []
        try:
            with open_transaction(copy.wanted.label, properties, readonly=True) as connection:
                run(connection, "SET TRANSACTION SNAPSHOT %s", snapshot)
                while not failed.is_set():
                    number, tids = waiting.get_nowait()
                    done.append((number, copy.copy(connection, number, tids)))
        except Empty:
            return done
        except BaseException:
            failed.set()
            raise
        return done

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        copied = [each for done in pool.map(work, range(min(CONNECTIONS, len(ranges)))) for each in done]
    return [file for _, files in sorted(copied, key=lambda each: each[0]) for file in files]


def _explain(connection: Connection, copy: _Copy, ranges: int) -> dict[str, Any]:
    """PostgreSQL's plan, told before any row moves; it also refuses a `where` that it does not understand."""
    (plans,) = fetch_one(connection, f"EXPLAIN (VERBOSE, FORMAT JSON) {copy.select()}")
    plan: dict[str, Any] = (json.loads(plans) if isinstance(plans, str) else plans)[0]["Plan"]
    rows, size = plan["Plan Rows"], plan["Plan Rows"] * plan["Plan Width"]
    log.info(
        "copying %s into the exchange: about %d rows, %.1f MiB by PostgreSQL's statistics, in %s",
        copy.wanted.label,
        rows,
        size / (1 << 20),
        format_count(ranges, "range"),
    )
    return plan
