"""Small tables in the place of a job's sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_abs.core.errors import JobGraphError
from airflow_abs.exchange.sources.files import Files

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_FILES = 8
"""A table becomes at most this many files, so that the subtasks of its vertex have something to share."""


def write_inputs(
    session: Any, folder: Path, sources: Mapping[str, Mapping[str, Any]], inputs: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Write tables as Parquet files and return them as sources, in the form of `Files.to_json`.

    Raises:
        JobGraphError: a vertex that has no source, or rows that are no table.
    """
    written = {}
    for vertex, rows in inputs.items():
        if vertex not in sources:
            known = ", ".join(sorted(sources)) or "none"
            raise JobGraphError(
                f"inputs: vertex {vertex!r} has no source that rows could replace; vertices with one: {known}"
            )
        schema = sources[vertex].get("schema")
        write_table(as_table(session, vertex, rows, schema), folder / vertex)
        written[vertex] = Files(str(folder / vertex), schema=schema).to_json()
    return written


def as_table(session: Any, vertex: str, rows: Any, schema: str | None) -> pa.Table:
    """Rows as a table, of the types that the source declares, if it does."""
    import pyarrow as pa

    from airflow_abs.spark.result_rows import arrow_schema

    declared = arrow_schema(session.createDataFrame([], schema).schema.json()) if schema else None
    if isinstance(rows, pa.Table):
        return rows.select(declared.names).cast(declared) if declared else rows
    if not isinstance(rows, Sequence) or not all(isinstance(row, Mapping) for row in rows):
        raise JobGraphError(
            f"inputs: the rows of vertex {vertex!r} are {type(rows).__name__}; expected a pyarrow Table or a list of "
            "dicts"
        )
    if not rows and declared is None:
        raise JobGraphError(
            f"inputs: vertex {vertex!r} has no rows and so no columns; give an empty pyarrow Table with a schema, or "
            "declare Files(..., schema='...')"
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return pa.Table.from_pylist(list(rows), declared) if declared else pa.table(columns)


def write_table(table: pa.Table, folder: Path, files: int = _MOST_FILES) -> None:
    """One table as several Parquet files of about as many rows each."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    count = max(1, min(files, table.num_rows))
    cuts = [number * table.num_rows // count for number in range(count + 1)]
    for number in range(count):
        part = table.slice(cuts[number], cuts[number + 1] - cuts[number])
        pq.write_table(part, folder / f"part-{number}.parquet", coerce_timestamps="us")
