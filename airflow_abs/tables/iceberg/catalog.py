"""From a connection's properties to a table: pyiceberg's catalogs, with what went wrong in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError

from airflow_abs.tables.errors import TableError, first_line

if TYPE_CHECKING:
    from pyiceberg.table import Table


def load_table(name: str, catalog: str, properties: Mapping[str, str]) -> Table:
    """Load a table's current metadata.

    Args:
        name: in the catalog, such as ``db.orders``.
        catalog: its name, for messages and for pyiceberg's own configuration.
        properties: of the catalog: ``type``, ``uri``, ``warehouse`` and whatever else pyiceberg takes.

    Raises:
        TableError: the catalog cannot be reached, or does not hold the table.
    """
    try:
        return load_catalog(catalog, **properties).load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError, NoSuchViewError) as error:
        raise TableError(
            f"table {catalog}.{name}: the catalog does not hold it: {first_line(error)}; check the name, and "
            f"which catalog the connection {catalog!r} leads to"
        ) from error
    except Exception as error:  # of whatever library the catalog's kind brings
        raise TableError(
            f"table {catalog}.{name}: the catalog cannot be read: {type(error).__name__}: {first_line(error)}; "
            "check the connection: its extra holds the catalog's properties, such as "
            '{"type": "rest", "uri": "https://..."} or {"type": "sql", "uri": "postgresql+psycopg2://..."}'
        ) from error
