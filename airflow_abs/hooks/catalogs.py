"""What tables reach through Airflow: the properties of catalogs and databases, and paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from threading import Lock
from typing import TYPE_CHECKING

from airflow_abs.hooks.storage import open_path

if TYPE_CHECKING:
    from airflow_abs.tables.access import TableAccess
    from airflow_abs.tables.catalog.statements import SparkCatalog

_asking = Lock()
"""Tables are looked at side by side, and in `airflow dags test` a thread that asks while another one does is told that
the connection is not there: Airflow puts away, for the time of a question, what all of them ask."""


def table_access(open_catalog: Callable[[], AbstractContextManager[SparkCatalog]] | None = None) -> TableAccess:
    """What a task lets tables reach; `open_catalog` is of tasks that have a Spark."""
    from airflow_abs.tables.access import TableAccess

    more = {} if open_catalog is None else {"open_catalog": open_catalog}
    return TableAccess(catalog_properties, open_path, **more)


def catalog_properties(conn_id: str) -> Mapping[str, str]:
    """What a connection says of a catalog: its extra, which takes precedence, and of its own fields the host as ``uri``
    and login and password as ``credential`` (as Airflow's Iceberg provider has it).

    One of the type ``postgres`` gives libpq's properties instead: ``host``, ``port``, ``dbname``, ``user``,
    ``password``, and its extra.
    """
    from airflow.sdk import BaseHook

    with _asking:
        connection = BaseHook.get_connection(conn_id)
    if connection.conn_type == "postgres":
        fields = {
            "host": connection.host,
            "port": connection.port,
            "dbname": connection.schema,
            "user": connection.login,
            "password": connection.password,
        }
        own = {name: str(value) for name, value in fields.items() if value}
    else:
        own = {"uri": connection.host} if connection.host else {}
        if connection.login and connection.password:
            own["credential"] = f"{connection.login}:{connection.password}"
    return own | {str(name): str(value) for name, value in connection.extra_dejson.items()}
