"""Files as Spark leaves them in the exchange for a table: with the columns' ids, partition values in folder names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.tables.iceberg.target import read_target
from airflow_abs.tables.publication import publish_staged

NAME = "lake.db.t"
SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "region", StringType()))


def target_of(table: Any, mode: TableMode = "append") -> TargetTable:
    return replace(read_target(NAME, table, conn_id="lake", mode=mode), kind="iceberg")


def rows_of(table: Any) -> list[tuple[int, str | None]]:
    table.refresh()
    return sorted(((row["id"], row["region"]) for row in table.scan().to_arrow().to_pylist()), key=str)


def row(number: int, region: str | None = "north") -> dict[str, Any]:
    return {"id": number, "region": region}


def stage(folder: Path, table: Any, rows: Iterable[Mapping[str, Any]], partition: str = "") -> StagedFile:
    """One file below `folder`; `partition` is such as ``__partition_0=vnorth``."""
    listed = list(rows)
    name = f"t/subtask-0/attempt-1/t.sink/{partition}{'/' if partition else ''}part-{_digest(listed)}.parquet"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(listed, schema=table.schema().as_arrow()), path)
    return StagedFile(path, name, path.stat().st_size, len(listed))


def publish(
    properties: Mapping[str, str], target: TargetTable, staged: list[StagedFile], run: str, **arguments: Any
) -> dict[str, Any]:
    return publish_staged(target, staged, identity=f"dag/{run}/job/t", connect=lambda _: properties, **arguments)


def _digest(rows: list[Mapping[str, Any]]) -> str:
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:8]
