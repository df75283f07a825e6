"""Sources as the DAG declared them, back from the JSON in which Airflow renders their templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from airflow_abs.exchange.sources.files import Files
from airflow_abs.tables.iceberg_table import IcebergTable
from airflow_abs.tables.source import Pin, TableSource

_TABLES = {"iceberg": IcebergTable}


def read_source(value: Mapping[str, Any]) -> Files | TableSource:
    """`Files`, or the table of the kind that the value names."""
    if "kind" not in value:
        return Files.from_json(value)
    fields = {name: field for name, field in value.items() if name != "kind"}
    return _TABLES[value["kind"]](**fields)


def pin_sources(
    sources: Mapping[str, Files | TableSource], connect: Callable[[str], Mapping[str, str]]
) -> dict[str, Files | Pin]:
    """Fix what is read of every table, all of them side by side; files stay as they are declared.

    Args:
        sources: by vertex, rendered.
        connect: as in `TableSource.pin`.

    Raises:
        TableError: the first that went wrong.
    """
    tables = {name: source for name, source in sources.items() if not isinstance(source, Files)}
    if not tables:
        return {name: source for name, source in sources.items() if isinstance(source, Files)}
    with ThreadPoolExecutor(len(tables)) as pool:
        pins = dict(zip(tables, pool.map(lambda table: table.pin(connect), tables.values()), strict=True))
    return {name: source if isinstance(source, Files) else pins[name] for name, source in sources.items()}
