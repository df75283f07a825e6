"""Sources and sinks as the DAG declared them, back from the JSON in which Airflow renders their templates."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from typing import Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.core.graph.job_graph import JobGraph
from airflow_abs.core.incremental.reach import sinks_after
from airflow_abs.exchange.incremental.new_files import take_new_files
from airflow_abs.exchange.incremental.position_log import check_begins
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.exchange.publish.target_table import TargetTable
from airflow_abs.exchange.sources.files import Files
from airflow_abs.exchange.storage.locations import ExchangePath
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.kinds import FILES, class_of, kind_of, to_declared
from airflow_abs.tables.sink import TableSink
from airflow_abs.tables.source import Given, LandedSource, Pin, TableSource


def read_declared(value: Mapping[str, Any]) -> Any:
    """The source or sink of the kind that the value names; errors as `class_of`."""
    fields = {name: field for name, field in value.items() if name != "kind"}
    return class_of(value.get("kind", FILES))(**fields)


def find_targets(sinks: Mapping[str, Files | TableSink], access: TableAccess) -> dict[str, Files | TargetTable]:
    """What the tables among the sinks are now; files stay as they are declared.

    Args:
        sinks: by vertex, rendered.
        access: as in `TableSink.target`.

    Raises:
        TableError: the first that went wrong.
        JobGraphError: two vertices publish to one table.
    """
    found = {name: sink if isinstance(sink, Files) else _target(sink, access) for name, sink in sinks.items()}
    targets = [(name, target) for name, target in found.items() if isinstance(target, TargetTable)]
    for (one, target), (other, another) in combinations(targets, 2):
        if target.ids & another.ids:
            raise JobGraphError(
                f"the sinks of vertices {one!r} and {other!r} are one table ({another.table}), or a table and a "
                "partition of it, and are published one after the other; union the rows in one vertex, or give each "
                "sink a table of its own"
            )
    return found


def _target(sink: TableSink, access: TableAccess) -> TargetTable:
    return replace(sink.target(access), kind=kind_of(sink))


def pin_sources(
    sources: Mapping[str, Files | TableSource | LandedSource],
    access: TableAccess,
    folder: JobFolder,
) -> dict[str, Files | Pin]:
    """Fix what is read of every table, all of them side by side; files stay as they are declared.

    Args:
        sources: by vertex, rendered.
        access: as in `TableSource.pin`.
        folder: of the run, for the rows of tables that do not keep them.

    Raises:
        TableError: the first that went wrong.
    """

    def pin(vertex: str, table: TableSource | LandedSource) -> Pin:
        if isinstance(table, LandedSource):
            pin = table.land(access, folder.landed_path(vertex, uuid.uuid4().hex))
        else:
            pin = table.pin(access)
        return replace(pin, pinned=replace(pin.pinned, declared=to_declared(table)))

    tables = {name: source for name, source in sources.items() if not isinstance(source, Files)}
    if not tables:
        return {name: source for name, source in sources.items() if isinstance(source, Files)}
    with ThreadPoolExecutor(len(tables)) as pool:
        pins = dict(zip(tables, pool.map(pin, tables, tables.values()), strict=True))
    return {name: source if isinstance(source, Files) else pins[name] for name, source in sources.items()}


def take_sources(
    folder: JobFolder,
    graph: JobGraph,
    sources: Mapping[str, Files | Pin],
    open_path: Callable[[str], ExchangePath],
    is_over: Callable[[str], bool],
    jobs: Collection[str] = (),
) -> dict[str, Given]:
    """Make of every incremental source the files that are this run's; all others stay as they are.

    Args:
        folder: of the run.
        graph: of the job.
        sources: by vertex.
        open_path, is_over: as in `take_new_files`.
        jobs: as in `check_begins`.

    Raises:
        ExchangeError: see `take_new_files`, `check_begins`.
    """
    incremental = {name for name, each in sources.items() if isinstance(each, Files) and each.incremental}

    def take(vertex: str, source: Files | Pin) -> Given:
        if not isinstance(source, Files) or not source.incremental:
            return source
        check_begins(folder, vertex, incremental, jobs)
        return take_new_files(folder, vertex, source, sinks_after(graph, vertex), open_path, is_over)

    return {vertex: take(vertex, source) for vertex, source in sources.items()}
