"""Spark's catalog, asked through a Connect session; what `airflow_abs.tables.catalog` needs of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_abs.spark.connect.endpoint import ConnectEndpoint
from airflow_abs.spark.connect.session import is_gone, open_session
from airflow_abs.tables.catalog.statements import StatementError, StoredFile


@dataclass(frozen=True, slots=True)
class SessionCatalog:
    """A `SparkCatalog`."""

    session: Any

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import SQL

        # As a relation it answers in one request; `session.sql` takes two.
        return _collect(lambda: DataFrame(SQL(statement), self.session))

    def run(self, statement: str) -> None:
        with _refusals():
            self.session.sql(statement)

    def schema(self, table: str) -> str:
        with _refusals():
            return str(self.session.table(table).schema.json())

    def list_files(self, folders: Sequence[str]) -> list[StoredFile]:
        # Recursive: else Spark would look for partitions in the folders' names. Names may hold glob characters.
        reader = self.session.read.format("binaryFile").option("recursiveFileLookup", "true")
        reader = reader.option("__globPaths__", "false")
        found = _collect(
            lambda: reader.load(list(folders)).selectExpr("path", "length", "unix_millis(modificationTime)")
        )
        return [StoredFile(*each) for each in found]


@contextmanager
def open_session_catalog(endpoint: Callable[[], ConnectEndpoint]) -> Iterator[SessionCatalog]:
    """A catalog on a session of its own, which ends with the block; errors as `open_session`."""
    with open_session(endpoint()) as session:
        yield SessionCatalog(session)


def _collect(frame: Callable[[], Any]) -> list[tuple[Any, ...]]:
    with _refusals():
        return [tuple(row) for row in frame().collect()]


@contextmanager
def _refusals() -> Iterator[None]:
    """A lost server is no refusal: its error passes through, and the task is retried."""
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        if is_gone(error):
            raise
        first = str(error).strip().partition("\n")[0]
        raise StatementError(first, error.getCondition() or "") from error
