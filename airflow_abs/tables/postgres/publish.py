"""One transaction for each run: what a run wrote is in the table once, or not at all.

The rows are copied into a temporary table, which is gone with the connection; then they replace what they are to
replace, and the ledger says so, all in one transaction. So the next try looks into the ledger first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg2
import psycopg2.errors
import pyarrow.parquet as pq

from airflow_abs.core.wording import format_count
from airflow_abs.exchange.errors import CommitConflictError, DamagedFileError, TargetBusyError
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.postgres.columns import Column, choose, describe, quote, written_columns
from airflow_abs.tables.postgres.connection import (
    Connection,
    fetch_all,
    fetch_one,
    open_transaction,
    reason_of,
    refusals,
    run,
)
from airflow_abs.tables.postgres.copying import copy_in
from airflow_abs.tables.postgres.ledger import Ledger, LedgerEntry
from airflow_abs.tables.postgres.relation import Relation, check_alone, find_relation
from airflow_abs.tables.publishing.run_publication import OvertakenError
from airflow_abs.tables.publishing.staged_files import open_staged
from airflow_abs.tables.sink import Published, RunFiles

if TYPE_CHECKING:
    from airflow_abs.exchange.publish.record import StagedFile
    from airflow_abs.exchange.publish.target_table import TargetTable

_STAGED = "pg_temp.airflow_abs_staged"
_COPIED_AT_ONCE = 1 << 16  # rows
_TRIES = 50
_LONGEST_WAIT = "10min"
_ADVICE = "nothing was published. Fix what it names, and run commit again"


@dataclass(slots=True)
class TransactionPublication:
    """One run's publication to one table.

    Args:
        target: as planned.
        run: its files.
        properties: libpq's.
        on_step: told every step that is done; what it raises ends the publication there, as a kill would.
    """

    target: TargetTable
    run: RunFiles
    properties: Mapping[str, str]
    on_step: Callable[[str], None] = lambda step: None
    _unseen: CommitConflictError | None = None
    """What others changed that this run was about to overwrite; perhaps another try or a later plan of it."""
    _overwritten: Counter[int] | None = None
    """What the first try was about to overwrite: rows by their transactions."""

    def publish(self) -> Published:
        """Commit, or find that it is committed.

        Raises:
            SupersededError: a later plan of the run has published.
            CommitConflictError: others changed what this one would overwrite.
            TargetBusyError: others were faster every time.
            TableError: the table is another one by now, or what this run published before cannot be taken back; the
                server refuses the rows.
            psycopg2.Error: whether it happened is unknown.
        """
        for _ in range(_TRIES):
            try:
                return self._try()
            except OvertakenError as overtaken:
                reason = str(overtaken)
        raise TargetBusyError(
            f"table {self.target.table}: others changed the same rows while this run was about to publish, {_TRIES} "
            f"times: {reason}; nothing was published. Run commit again when they are done"
        )

    def _try(self) -> Published:
        with open_transaction(self.target.table, self.properties) as connection:
            with refusals(self.target.table, self.properties, "published to", _ADVICE):
                relation = self._find(connection)
                ledger = Ledger(relation, self.target.table)
                ledger.create(connection)
                try:
                    done = self._prepare(connection, relation, ledger)
                except (psycopg2.errors.SerializationFailure, psycopg2.errors.DeadlockDetected) as error:
                    raise OvertakenError(reason_of(error, self.properties)) from error
            if done.changed:
                self._commit(connection)
            return done

    def _prepare(self, connection: Connection, relation: Relation, ledger: Ledger) -> Published:
        """Everything but the commit. The ledger is read first, which takes the snapshot."""
        before = ledger.entries_of(connection, self.run.publisher)
        newest = max((entry.generation for entry in before), default=0)
        self.run.publisher.check_order(f"table {self.target.table}", newest)
        if [entry.digest for entry in before] == [self.run.digest]:
            return Published(changed=False, details={"transaction": before[0].transaction})
        if self._unseen is not None:
            raise self._unseen
        run(connection, f"SET LOCAL lock_timeout = '{_LONGEST_WAIT}'")
        columns = self._columns(connection, relation)
        rows = self._stage(connection, relation, columns)
        self.on_step("staged")
        replaced = self._replace(connection, relation, ledger, before)
        names = ", ".join(quote(column.name) for column in columns)
        inserted = run(connection, f"INSERT INTO {relation.sql} ({names}) SELECT {names} FROM {_STAGED}")  # noqa: S608
        if inserted != rows:
            raise TableError(
                f"table {self.target.table}: took {inserted} of {rows} rows, as a trigger or rule of its own changes "
                "what is inserted; nothing was published. Publish to a table without it"
            )
        ledger.write(connection, self.run.publisher, self.run.digest, rows, before)
        (transaction,) = fetch_one(connection, "SELECT pg_current_xact_id()::text::int8")
        self.on_step("ready")
        return Published(changed=True, replaced=replaced, details={"transaction": transaction})

    def _commit(self, connection: Connection) -> None:
        """Raises psycopg2.Error: whether it happened is unknown, unless the server itself refused."""
        try:
            connection.commit()
        except psycopg2.IntegrityError as error:  # a constraint that is deferred
            with refusals(self.target.table, self.properties, "published to", _ADVICE):
                raise error from None
        self.on_step("committed")

    def _find(self, connection: Connection) -> Relation:
        relation = find_relation(connection, self.target.table, self.target.details["table"])
        if relation.oid != self.target.details["oid"]:
            raise TableError(
                f"table {self.target.table}: is another table than the one that was planned (it was recreated); "
                "nothing was published. Clear the task plan and everything after it"
            )
        connection.rollback()
        return relation

    def _columns(self, connection: Connection, relation: Relation) -> list[Column]:
        names = [field["name"] for field in json.loads(self.target.schema)["fields"]]
        return written_columns(choose(self.target.table, describe(connection, relation.sql), names))

    def _stage(self, connection: Connection, relation: Relation, columns: list[Column]) -> int:
        """The run's rows in a temporary table; how many."""
        names = ", ".join(quote(column.name) for column in columns)
        like = f"AS SELECT {names} FROM {relation.sql} WITH NO DATA"  # noqa: S608 - names are quoted
        run(connection, f"CREATE TEMPORARY TABLE airflow_abs_staged ON COMMIT DROP {like}")
        copied = sum(self._copy(connection, columns, file) for file in self.run.files)
        where = self.target.details["where"]
        if where is not None:
            outside = f"SELECT count(*) FROM {_STAGED} WHERE (\n{where}\n) IS NOT TRUE"  # noqa: S608 - the author's
            (strange,) = fetch_one(connection, outside)
            if strange:
                raise TableError(
                    f"table {self.target.table}: {strange} of the run's {copied} rows do not meet where={where!r}, so "
                    "the next run would not replace them; nothing was published. Filter them out in the transform, or "
                    "correct where="
                )
        return copied

    def _copy(self, connection: Connection, columns: list[Column], file: StagedFile) -> int:
        with open_staged(file) as stream:
            try:
                batches = pq.ParquetFile(stream).iter_batches(_COPIED_AT_ONCE)
                copied = sum(copy_in(connection, _STAGED, columns, batch) for batch in batches)
            except (OSError, ValueError) as error:  # pyarrow's own are such
                raise DamagedFileError(
                    f"{file.source}: is not a readable Parquet file: {error}; clear the subtask that wrote it",
                    path=str(file.source),
                ) from error
        if copied != file.rows:
            raise DamagedFileError(
                f"{file.source}: has {copied} rows, its manifest says {file.rows}; clear the subtask that wrote it",
                path=str(file.source),
            )
        return copied

    def _replace(
        self, connection: Connection, relation: Relation, ledger: Ledger, before: list[LedgerEntry]
    ) -> tuple[str, ...]:
        """Delete what this run published before, and what it overwrites; other runs whose rows went."""
        conditions = [f"xmin = '{entry.xmin}'::xid" for entry in before if entry.rows]
        if self.target.mode == "overwrite":
            where = self.target.details["where"]
            conditions.append(f"(\n{where}\n)" if where is not None else "true")
            run(connection, f"LOCK TABLE {relation.sql} IN SHARE ROW EXCLUSIVE MODE")
        if not conditions:
            return ()
        with open_transaction(self.target.table, self.properties, readonly=True) as other:  # sees keys of this moment
            check_alone(other, self.target.table, relation, whole="true" in conditions)
        condition = " OR ".join(conditions)
        try:
            gone = _delete(connection, relation, condition)
        except psycopg2.errors.SerializationFailure as error:
            if self.target.mode == "overwrite":
                self._unseen = CommitConflictError(
                    f"table {self.target.table}: others changed rows while this run was about to overwrite them: "
                    f"{reason_of(error, self.properties)}; nothing was published. Run commit again to overwrite "
                    "them, and let only one run at a time overwrite it"
                )
            raise
        if self.target.mode == "overwrite":
            self._check_unseen(relation, condition, gone)
        elif gone.total() != (rows := sum(entry.rows for entry in before)):
            raise TableError(
                f"table {self.target.table}: this run published {format_count(rows, 'row')}, of which "
                f"{gone.total()} are as they were, so its earlier rows cannot be replaced by those of today; nothing "
                f"was published. Delete its rows and its row in {ledger.sql}, and run commit again"
            )
        others = (other for other in ledger.others(connection, self.run.publisher) if other.rows)
        replaced = {other: count for other in others if (count := gone[other.xmin])}
        ledger.take_out(connection, replaced)
        return tuple(other.run for other in replaced)

    def _check_unseen(self, relation: Relation, condition: str, gone: Counter[int]) -> None:
        """Rows that others committed since this transaction's snapshot: it cannot see them, another one can. Nobody
        adds any now, as the table is locked. And those that they committed since the snapshot of an earlier try."""
        if self._overwritten is None:
            self._overwritten = gone
        before = (gone & self._overwritten).total()
        with open_transaction(self.target.table, self.properties, readonly=True) as other:
            (there,) = fetch_one(other, f"SELECT count(*) FROM {relation.sql} WHERE {condition}")  # noqa: S608
        if there != before:
            self._unseen = CommitConflictError(
                f"table {self.target.table}: others committed {format_count(there - before, 'row')} while this run "
                "was about to overwrite, which would be lost unseen; nothing was published. Run commit again to "
                "overwrite them, and let only one run at a time overwrite it"
            )
            raise OvertakenError(str(self._unseen))


def _delete(connection: Connection, relation: Relation, condition: str) -> Counter[int]:
    """Delete rows; how many of each transaction's."""
    statement = f"""
        WITH gone AS (DELETE FROM {relation.sql} WHERE {condition} RETURNING xmin::text::int8 AS by)
        SELECT by, count(*) FROM gone GROUP BY by
    """  # noqa: S608 - names are quoted, the condition is the author's
    return Counter(dict(fetch_all(connection, statement)))
