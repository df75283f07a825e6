"""Files as Spark leaves them in the exchange for a table: with the columns' ids, partition values in folder names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType

from airflow_abs.exchange.publish.publisher import Publisher
from airflow_abs.exchange.publish.record import StagedFile
from airflow_abs.exchange.publish.target_table import TableMode, TargetTable
from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.iceberg.target import read_target
from airflow_abs.tables.publishing.publication import publish_staged
from airflow_abs.testing.table_contract import stage_file

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
    """One file below `folder`; `partition` as in `stage_file`."""
    return stage_file(folder, pa.Table.from_pylist(list(rows), schema=table.schema().as_arrow()), partition)


def publish(
    properties: Mapping[str, str], target: TargetTable, staged: list[StagedFile], run: str, **arguments: Any
) -> dict[str, Any]:
    publisher = arguments.pop("publisher", Publisher(f"dag/{run}/job/t"))
    access = TableAccess(lambda _: properties, Path)
    return publish_staged(target, staged, publisher=publisher, access=access, **arguments)
