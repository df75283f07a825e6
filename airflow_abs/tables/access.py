"""What a task lets a table reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.errors import TableError

if TYPE_CHECKING:
    from airflow_abs.tables.catalog.statements import SparkCatalog


def _no_catalog() -> AbstractContextManager[SparkCatalog]:
    raise TableError("this task has no Spark session to ask a catalog; ask it in pin(), target() or publish()")


@dataclass(frozen=True, slots=True)
class TableAccess:
    """Airflow's connections, the paths that they open, and the catalog of the job's Spark.

    Args:
        connection: returns the properties of the Airflow connection with this id, as plain strings.
        open_path: opens a path that may name an Airflow connection.
        open_catalog: opens a session on the job's Spark, which ends with the block. In tasks without Spark, such as
            `decide`, it raises a `TableError`.
    """

    connection: Callable[[str], Mapping[str, str]]
    open_path: Callable[[str], ExchangePath]
    open_catalog: Callable[[], AbstractContextManager[SparkCatalog]] = _no_catalog
