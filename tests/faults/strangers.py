"""Tables that the faults' pipeline appends to, and whoever else writes to them at all times."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException

from airflow_abs.spark.connect.session import open_session
from airflow_abs.spark.server.embedded import ensure_embedded_server, stop_embedded_server
from airflow_abs.spark.server.embedded_state import EmbeddedSettings
from tests.postgres_server import running_postgres

NOBODY = "nobody"
"""The run of rows that are of none."""
EVERY_SECONDS = 2.0

_SCHEMA = pa.schema(
    [("region", pa.string()), ("revenue", pa.decimal128(22, 2)), ("orders", pa.int64()), ("run", pa.string())]
)
_TABLE = "CREATE TABLE totals (region text, revenue numeric(22, 2), orders bigint, run text)"
_SPARK_TABLE = "CREATE TABLE db.totals (region string, revenue decimal(22, 2), orders bigint, run string) USING parquet"
_USER = {"host": "127.0.0.1", "user": "airflow", "dbname": "postgres"}
Row = tuple[Any, ...]


@dataclass(slots=True)
class Tables:
    """One table of each kind; `foreign` are the numbers that strangers have appended to it.

    Nobody hits the strangers: what they were told is in the table is to be there once, to the end.
    """

    folder: Path
    port: int
    foreign: dict[str, list[int]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """For Airflow: where the tables are, with their connections."""
        postgres = {"conn_type": "postgres", "host": "127.0.0.1", "login": "airflow", "schema": "postgres"}
        return {
            "AIRFLOW_ABS_FAULTS_TABLES": str(self.folder),
            "AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "iceberg", "extra": self._catalog}),
            "AIRFLOW_CONN_WAREHOUSE": json.dumps({**postgres, "port": self.port}),
        }

    @property
    def spark_conf(self) -> dict[str, str]:
        """For Spark: the catalog of its own, a metastore on disk, which the next server finds again."""
        derby = f"jdbc:derby:;databaseName={self.folder}/metastore;create=true"
        return {
            "spark.sql.catalogImplementation": "hive",
            "spark.hadoop.javax.jdo.option.ConnectionURL": derby,
            "spark.driver.extraJavaOptions": f"-Dderby.system.home={self.folder}",
        }

    def create(self) -> None:
        with closing(self._load_catalog()) as catalog:
            catalog.create_namespace("db")
            catalog.create_table("db.totals", _SCHEMA)
        write_deltalake(self._delta, _SCHEMA.empty_table())
        self._execute(_TABLE)
        self._create_catalog_table()

    @contextmanager
    def strangers(self) -> Iterator[None]:
        """One for each table, who appends all the time.

        Raises:
            RuntimeError: one of them could not.
        """
        over, failed = threading.Event(), list[str]()
        kinds: Mapping[str, Callable[[int], None]] = {
            "iceberg": self._append_to_iceberg,
            "delta": self._append_to_delta,
            "postgres": self._append_to_postgres,
            "catalog": self._append_to_catalog_table,
        }

        def write(kind: str) -> None:
            try:
                while not over.wait(EVERY_SECONDS):
                    kinds[kind](len(self.foreign[kind]))
                    self.foreign[kind].append(len(self.foreign[kind]))
            except Exception as error:  # told below
                failed.append(f"{kind}: {error!r}")

        self.foreign = {kind: [] for kind in kinds}
        threads = [threading.Thread(target=write, args=(kind,), name=f"stranger of {kind}") for kind in kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
        if failed:
            raise RuntimeError(f"strangers could not write: {'; '.join(failed)}")

    def find_wrong(self, run: str, expected: Sequence[Row]) -> list[str]:
        """What is not as it should be: the run's rows once, and all of the strangers' once."""
        wrong = []
        kinds = {
            "iceberg": self._iceberg,
            "delta": self._delta_rows,
            "postgres": self._postgres,
            "catalog": self._catalog_rows,
        }
        for kind, read in kinds.items():
            told = list(self.foreign.get(kind, ()))  # before the look: more may come
            found = Counter(read())
            rows = Counter({row[:-1]: times for row, times in found.items() if row[-1] == run})
            if rows != Counter(map(tuple, expected)):
                wrong.append(f"{kind}: of {run} it holds {dict(rows)}, expected {list(expected)} once")
            others = Counter({row[2]: times for row, times in found.items() if row[-1] == NOBODY})
            lost = [number for number in told if others[number] != 1]
            if lost:
                wrong.append(f"{kind}: of the strangers' {len(told)} rows these are not there once: {lost}")
        return wrong

    def _append_to_iceberg(self, number: int) -> None:
        with closing(self._load_catalog()) as catalog:
            while True:
                try:
                    return catalog.load_table("db.totals").append(_row(number))
                except CommitFailedException:
                    continue

    def _append_to_delta(self, number: int) -> None:
        while True:
            try:
                return write_deltalake(self._delta, _row(number), mode="append")
            except CommitFailedError:
                continue

    def _append_to_postgres(self, number: int) -> None:
        self._execute(f"INSERT INTO totals VALUES ('elsewhere', 0, {number}, '{NOBODY}')")

    def _append_to_catalog_table(self, number: int) -> None:
        """As another engine does that knows where the table is: a file, there at once."""
        file = self.folder / "stranger.parquet"
        pq.write_table(_row(number), file)
        file.rename(self._catalog_folder / f"stranger-{number}.parquet")

    def _iceberg(self) -> list[Row]:
        with closing(self._load_catalog()) as catalog:
            return _rows(catalog.load_table("db.totals").scan().to_arrow())

    def _delta_rows(self) -> list[Row]:
        return _rows(DeltaTable(self._delta).to_pyarrow_table())

    def _postgres(self) -> list[Row]:
        return self._execute("SELECT region, revenue, orders, run FROM totals")

    def _catalog_rows(self) -> list[Row]:
        """What readers of its folder see: appending never moves the table."""
        files = [each for each in self._catalog_folder.glob("*.parquet") if not each.name.startswith(("_", "."))]
        return [row for file in files for row in _rows(pq.read_table(file, partitioning=None))]

    def _execute(self, statement: str) -> list[Row]:
        with closing(psycopg2.connect(**_USER, port=self.port)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

    def _load_catalog(self) -> Catalog:
        return load_catalog("lake", **self._catalog)

    @property
    def _catalog(self) -> dict[str, str]:
        uri = f"postgresql+psycopg2://airflow@127.0.0.1:{self.port}/postgres"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.folder}/iceberg"}

    def _create_catalog_table(self) -> None:
        server = self.folder / "creator"
        server.mkdir(mode=0o700)
        settings = EmbeddedSettings(cores=1, driver_memory="1g", conf=tuple(self.spark_conf.items()))
        try:
            with open_session(ensure_embedded_server(server, settings=settings)) as session:
                session.sql(f"CREATE DATABASE db LOCATION '{self._catalog_folder.parent}'").collect()
                session.sql(_SPARK_TABLE).collect()
        finally:
            stop_embedded_server(server)

    @property
    def _catalog_folder(self) -> Path:
        return self.folder / "catalog" / "totals"

    @property
    def _delta(self) -> str:
        return f"{self.folder}/delta"


@contextmanager
def open_tables(folder: Path) -> Iterator[Tables]:
    """Made below `folder`, with a PostgreSQL of their own."""
    with running_postgres() as port:
        tables = Tables(folder, port)
        folder.mkdir(parents=True)
        tables.create()
        yield tables


def _row(number: int) -> pa.Table:
    values = [["elsewhere"], [Decimal(0)], [number], [NOBODY]]
    return pa.Table.from_arrays(
        [pa.array(each, kind.type) for each, kind in zip(values, _SCHEMA, strict=True)], schema=_SCHEMA
    )


def _rows(table: pa.Table) -> list[Row]:
    return [tuple(row[name] for name in _SCHEMA.names) for row in table.to_pylist()]
