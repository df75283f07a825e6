"""What a task lets a table reach: Airflow's connections, and the catalog of the job's Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.catalog.statements import SparkCatalog


@dataclass(frozen=True, slots=True)
class Connections:
    """The `connect` of a task that can open a session on the job's Spark; called, it is as any other.

    Args:
        properties: an Airflow connection's id to what the connection holds.
        open_catalog: opens a session, which ends with the block.
        open_path: opens a path that Airflow may know a connection of.
    """

    properties: Callable[[str], Mapping[str, str]]
    open_catalog: Callable[[], AbstractContextManager[SparkCatalog]]
    open_path: Callable[[str], ExchangePath]

    def __call__(self, conn_id: str) -> Mapping[str, str]:
        return self.properties(conn_id)


def connections_of(connect: Callable[[str], Mapping[str, str]]) -> Connections:
    """What a kind of table is given, as what it is.

    Raises:
        TypeError: the caller has no Spark.
    """
    if not isinstance(connect, Connections):
        raise TypeError(f"connect is {connect!r}; expected Connections, which can open a session of Spark")
    return connect
