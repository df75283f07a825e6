"""Delta tables, and files as Spark leaves them in the exchange for one: partition values in folder names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable as Library
from deltalake import write_deltalake

from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.delta.storage import load_table
from airflow_abs.tables.delta.target import read_target
from airflow_abs.tables.publishing.publication import publish_staged

SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])


def row(number: int, region: str | None = "north") -> dict[str, Any]:
    return {"id": number, "region": region}


def create(path: Path, rows: Iterable[Mapping[str, Any]] = (), **options: Any) -> Library:
    """A table with these rows in one version, or with none."""
    write_deltalake(path, pa.Table.from_pylist(list(rows), schema=SCHEMA), **options)
    return Library(path)


def rows_of(path: Path, version: int | None = None) -> list[tuple[int, str | None]]:
    found = Library(path, version=version).to_pyarrow_table().to_pylist()
    return sorted(((row["id"], row["region"]) for row in found), key=str)


def target_of(path: Path, mode: TableMode = "append") -> TargetTable:
    return replace(read_target(str(path), load_table(str(path), {}), conn_id="", mode=mode), kind="delta")


def stage(folder: Path, rows: Iterable[Mapping[str, Any]], partition: str = "", schema: Any = SCHEMA) -> StagedFile:
    """One file below `folder`; `partition` is such as ``__partition_0=vnorth``, its column is not in the file."""
    listed = list(rows)
    digest = hashlib.sha256(repr(listed).encode()).hexdigest()[:8]
    name = f"t/subtask-0/attempt-1/t.sink/{partition}{'/' if partition else ''}part-{digest}.parquet"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    held = pa.Table.from_pylist(listed, schema=schema)
    pq.write_table(held.drop_columns(["region"]) if partition else held, path)
    return StagedFile(path, name, path.stat().st_size, len(listed))


def publish(target: TargetTable, staged: list[StagedFile], run: str, **arguments: Any) -> dict[str, Any]:
    publisher = arguments.pop("publisher", Publisher(f"dag/{run}/job/t"))
    return publish_staged(target, staged, publisher=publisher, access=TableAccess(lambda _: {}, Path), **arguments)


def edit_log(path: Path, version: int, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the actions of one entry of the log, as an engine that deltalake is not would have written them."""
    file = path / "_delta_log" / f"{version:020d}.json"
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        change(action)
    file.write_text("\n".join(map(json.dumps, actions)) + "\n")


def append_log(path: Path, *actions: Mapping[str, Any]) -> None:
    """One more entry of the log."""
    version = Library(path).version() + 1
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")
