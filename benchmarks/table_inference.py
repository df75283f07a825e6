"""How long `plan` takes to ask an Iceberg table what it holds, against the number of its files.

The files are entries of the table's metadata alone: nothing looks into them.
"""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow_abs.tables.access import TableAccess
from airflow_abs.tables.iceberg_table import IcebergTable

FILES = (1_000, 10_000, 50_000)
COMMITS = 20
COLUMNS = 20
REPEATS = 3


def run() -> list[dict[str, int | float | str]]:
    """One row per size and condition; seconds are the least of three."""
    rows: list[dict[str, int | float | str]] = []
    for files in FILES:
        with TemporaryDirectory() as folder:
            properties = make_table(Path(folder), files)
            tenth = f"id >= {files // 2} AND id < {files // 2 + files // 10}"
            rows += [measure(properties, files, where) for where in ("", tenth)]
    return rows


def measure(properties: dict[str, str], files: int, where: str) -> dict[str, int | float | str]:
    """Pin it, as `plan` does."""
    table = IcebergTable("lake.db.t", where=where or None)
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        pin = table.pin(TableAccess(lambda _: properties, Path))
        seconds.append(time.perf_counter() - started)
    return {"files": files, "where": where or "-", "read": len(pin.files), "seconds": round(min(seconds), 2)}


def make_table(folder: Path, files: int) -> dict[str, str]:
    """A table partitioned by identity, of which file n holds the rows whose id is n; the catalog's properties."""
    from pyiceberg.catalog import load_catalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import LongType, NestedField

    properties = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
    catalog = load_catalog("lake", **properties)
    catalog.create_namespace("db")
    columns = [NestedField(number, f"c{number}", LongType()) for number in range(3, COLUMNS + 1)]
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "day", LongType()), *columns)
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    table = catalog.create_table("db.t", schema, partition_spec=spec)
    for commit in range(COMMITS):
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as snapshot:
            for number in range(commit * files // COMMITS, (commit + 1) * files // COMMITS):
                snapshot.append_data_file(_file(folder, number, table.spec().spec_id))
    catalog.close()
    return properties


def _file(folder: Path, number: int, spec_id: int) -> Any:
    from pyiceberg.conversions import to_bytes
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record
    from pyiceberg.types import LongType

    ids = range(1, COLUMNS + 1)
    bound = {1: to_bytes(LongType(), number)}
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{folder}/lake/{number}.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(number // 100),
        record_count=1000,
        file_size_in_bytes=100_000,
        value_counts=dict.fromkeys(ids, 1000),
        null_value_counts=dict.fromkeys(ids, 0),
        lower_bounds=bound,
        upper_bounds=bound,
    )
    file.spec_id = spec_id
    return file
