"""`PostgresTable`: a table, view or query of PostgreSQL as the source of a vertex, or a table as its sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.sources.files import column_list
from airflow_abs.exchange.sources.pinned import PinnedTable
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.errors import TableError
from airflow_abs.tables.sink import Published, RunFiles
from airflow_abs.tables.source import Pin
from airflow_abs.tables.table_arguments import installed

if TYPE_CHECKING:
    from airflow_abs.tables.postgres.landing import Landed

Mode = Literal["append", "overwrite"]
_MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, slots=True)
class PostgresTable:
    """A table of a PostgreSQL database (13 or newer), which must exist.

    As a source: `plan` copies the rows of one snapshot into the exchange, over as many as four connections, and all
    subtasks, retries and recomputations of the run read that copy. As a sink: `commit` publishes the rows of a run in
    one transaction, together with the run's name in the table ``airflow_abs_runs`` of the same schema, and so exactly
    once.

    Only Airflow's workers connect to the database, with the extra ``postgres`` (psycopg2). Spark needs no driver, and
    neither Spark nor the exchange gets the password.

    Args:
        conn_id: an Airflow connection of the type ``postgres``; its schema is the database.
        table: ``schema.table``, in PostgreSQL's syntax: names with capitals in double quotes; templated.
        query: a SELECT whose rows are read instead; templated; for sources.
        where: only rows for which this holds, in PostgreSQL's own SQL; for a sink with ``mode="overwrite"``, the rows
            to replace, and every row of the run must match; templated.
        columns: the columns to use; by default all. In a sink, other columns get their defaults.
        as_text: columns to read as text, whatever their type, such as arrays; for sources.
        mode: append, or overwrite (the table then has only this run's rows, and those that `where` does not match); for
            sinks.

    Raises:
        ValueError: neither a table nor a query, or both; an unknown mode, invalid column names.
    """

    conn_id: str
    table: str | None = None
    query: str | None = None
    where: str | None = None
    columns: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    mode: Mode = "append"

    def __post_init__(self) -> None:
        if (self.table is None) == (self.query is None) or "" in (self.table, self.query):
            raise ValueError(
                f"PostgresTable({self.conn_id!r}): expected either table= or query=, such as table='sales.orders'; "
                f"found table={self.table!r} and query={self.query!r}"
            )
        if self.mode not in _MODES:
            raise ValueError(
                f"PostgresTable({self.conn_id!r}): mode is {self.mode!r}; expected one of {', '.join(_MODES)}"
            )
        for name in ("columns", "as_text"):
            listed = column_list(f"PostgresTable({self.conn_id!r})", name, getattr(self, name))
            object.__setattr__(self, name, listed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def land(self, access: TableAccess, folder: ExchangePath) -> Pin:
        """Copy what is read.

        Args:
            access: to the connection, which holds libpq's properties.
            folder: in the exchange, for this table alone.

        Raises:
            TableError: see `airflow_abs.tables.postgres.landing.land`; or psycopg2 is not installed.
            ExchangeUnreachableError: the exchange cannot be written to.
        """
        with installed(self._label, "postgres"):
            from airflow_abs.tables.postgres.landing import Wanted, land
        wanted = Wanted(self._label, self.table, self.query, self.where, self.columns, self.as_text)
        return _pin(self._label, land(wanted, access.connection(self.conn_id), folder))

    def target(self, access: TableAccess) -> TargetTable:
        """What rows must be like to be published to it.

        Raises:
            TableError: see `read_target`; it is given what only a source has; or psycopg2 is not installed.
        """
        if self.table is None or self.as_text or (self.where is not None and self.mode == "append"):
            raise TableError(
                f"table {self._label}: query= and as_text= choose what a source reads, and where= what "
                "mode='overwrite' replaces; this is a sink with mode 'append', or without a table: leave them out"
            )
        with installed(self._label, "postgres"):
            from airflow_abs.tables.postgres.target import Declared, read_target
        declared = Declared(self._label, self.conn_id, self.table, self.mode, self.columns, self.where)
        return read_target(declared, access.connection(self.conn_id))

    @staticmethod
    def publish(
        target: TargetTable,
        run: RunFiles,
        access: TableAccess,
        on_step: Callable[[str], None],
    ) -> Published:
        """One transaction with the run's rows; errors as `TransactionPublication.publish`."""
        from airflow_abs.tables.postgres.publish import TransactionPublication

        return TransactionPublication(target, run, access.connection(target.conn_id), on_step).publish()

    @property
    def asset_uri(self) -> str | None:
        """``x-postgres://warehouse/sales.orders``; None if the name is templated."""
        if not isinstance(self.table, str) or "{{" in self.table or "{{" in self.conn_id:
            return None
        return f"x-postgres://{self.conn_id}/{self.table}"

    @property
    def _label(self) -> str:
        return f"{self.conn_id}.{self.table if self.table is not None else 'query'}"


def _pin(label: str, landed: Landed) -> Pin:
    from airflow_abs.tables.postgres.columns import spark_schema
    from airflow_abs.tables.spark_settings import READ_SETTINGS

    schema, size = spark_schema(landed.columns), sum(file.bytes for file in landed.files)
    pinned = PinnedTable(
        table=label,
        version=landed.version,
        format="parquet",
        file_schema=schema,
        files=len(landed.files),
        bytes=size,
        all_files=len(landed.files),
        all_bytes=size,
        settings=READ_SETTINGS,
        uuid=landed.uuid,
    )
    return Pin(schema, pinned, landed.files, tables=landed.tables)
